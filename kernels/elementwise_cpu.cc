#include <algorithm>

#include "core/check.h"
#include "kernels/elementwise.h"
#include "kernels/row_ranges.h"
#include "kernels/vector/vector_kernels.h"

namespace twin::kernels {

void Add(ThreadPool& pool, MatrixView<const float> x, MatrixView<float> y) {
  CHECK(x.rows == y.rows && x.columns == y.columns);
  const VectorKernels& kernels = KernelsFor(pool.instruction_set());
  ForEachRow(pool, y.rows, y.columns,
             [&](std::int64_t t) { kernels.add(x.Row(t), y.columns, y.Row(t)); });
}

void AddBias(ThreadPool& pool, std::span<const float> bias, MatrixView<float> y) {
  CHECK(static_cast<std::int64_t>(bias.size()) == y.columns);
  const VectorKernels& kernels = KernelsFor(pool.instruction_set());
  ForEachRow(pool, y.rows, y.columns,
             [&](std::int64_t t) { kernels.add(bias.data(), y.columns, y.Row(t)); });
}

void Scale(ThreadPool& pool, float factor, MatrixView<float> y) {
  const VectorKernels& kernels = KernelsFor(pool.instruction_set());
  ForEachRow(pool, y.rows, y.columns,
             [&](std::int64_t t) { kernels.scale(factor, y.columns, y.Row(t)); });
}

void SoftCap(ThreadPool& pool, float cap, MatrixView<float> y) {
  CHECK(cap > 0);
  const VectorKernels& kernels = KernelsFor(pool.instruction_set());
  ForEachRow(pool, y.rows, y.columns,
             [&](std::int64_t t) { kernels.soft_cap(cap, y.columns, y.Row(t)); });
}

void EmbedRows(ThreadPool& pool, const WeightView& table, std::span<const std::int32_t> ids,
               MatrixView<float> y) {
  CHECK(static_cast<std::int64_t>(ids.size()) == y.rows && table.columns == y.columns);
  ForEachRow(pool, y.rows, y.columns,
             [&](std::int64_t t) { table.CopyRow(ids[static_cast<std::size_t>(t)], y.Row(t)); });
}

void AddEmbeddedRows(ThreadPool& pool, const WeightView& table, std::span<const std::int32_t> ids,
                     MatrixView<float> y) {
  CHECK(static_cast<std::int64_t>(ids.size()) == y.rows && table.columns == y.columns);
  const VectorKernels& kernels = KernelsFor(pool.instruction_set());
  pool.ParallelFor(y.rows, 1, [&](std::int64_t begin, std::int64_t end, std::int32_t thread) {
    float* row = pool.scratch(thread).Reserve<float>(y.columns);
    for (std::int64_t t = begin; t < end; ++t) {
      table.CopyRow(ids[static_cast<std::size_t>(t)], row);
      kernels.add(row, y.columns, y.Row(t));
    }
  });
}

void CopyPieces(ThreadPool& pool, MatrixView<const float> x, const PieceCopy& copy,
                MatrixView<float> y) {
  CHECK(x.rows == y.rows && copy.pieces >= 1);
  CHECK((copy.pieces - 1) * copy.x_apart + copy.width <= x.columns);
  CHECK((copy.pieces - 1) * copy.y_apart + copy.width <= y.columns);
  ForEachRow(pool, y.rows, copy.pieces * copy.width, [&](std::int64_t t) {
    for (std::int64_t p = 0; p < copy.pieces; ++p) {
      std::copy_n(x.Row(t) + p * copy.x_apart, copy.width, y.Row(t) + p * copy.y_apart);
    }
  });
}

void GatherRows(ThreadPool& pool, MatrixView<const float> x, std::span<const std::int32_t> rows,
                MatrixView<float> y) {
  CHECK(static_cast<std::int64_t>(rows.size()) == y.rows && x.columns == y.columns);
  ForEachRow(pool, y.rows, y.columns, [&](std::int64_t i) {
    const std::int64_t row = rows[static_cast<std::size_t>(i)];
    CHECK(row >= 0 && row < x.rows);
    std::copy_n(x.Row(row), x.columns, y.Row(i));
  });
}

}  // namespace twin::kernels
