#include <cmath>

#include "core/check.h"
#include "kernels/norm.h"
#include "kernels/row_ranges.h"
#include "kernels/vector/vector_kernels.h"

namespace twin::kernels {
namespace {

bool SameShape(MatrixView<const float> a, MatrixView<const float> b) {
  return a.rows == b.rows && a.columns == b.columns;
}

bool Fits(std::span<const float> gain, MatrixView<const float> x) {
  return static_cast<std::int64_t>(gain.size()) == x.columns;
}

}  // namespace

void RmsNorm(ThreadPool& pool, MatrixView<const float> x, std::span<const float> gain,
             float epsilon, MatrixView<float> y) {
  CHECK(SameShape(x, y) && Fits(gain, x));
  const VectorKernels& kernels = KernelsFor(pool.instruction_set());
  ForEachRow(pool, x.rows, x.columns, [&](std::int64_t t) {
    kernels.rms_norm(x.Row(t), gain.data(), epsilon, x.columns, y.Row(t));
  });
}

void AddRmsNorm(ThreadPool& pool, MatrixView<const float> delta, std::span<const float> gain,
                float epsilon, MatrixView<float> residual, MatrixView<float> y) {
  CHECK(SameShape(delta, residual) && SameShape(delta, y) && Fits(gain, delta));
  const VectorKernels& kernels = KernelsFor(pool.instruction_set());
  ForEachRow(pool, y.rows, y.columns, [&](std::int64_t t) {
    kernels.add(delta.Row(t), y.columns, residual.Row(t));
    kernels.rms_norm(residual.Row(t), gain.data(), epsilon, y.columns, y.Row(t));
  });
}

void LayerNorm(ThreadPool& pool, MatrixView<const float> x, std::span<const float> gain,
               std::span<const float> bias, float epsilon, MatrixView<float> y) {
  CHECK(SameShape(x, y) && Fits(gain, x) && Fits(bias, x));
  const VectorKernels& kernels = KernelsFor(pool.instruction_set());
  ForEachRow(pool, x.rows, x.columns, [&](std::int64_t t) {
    kernels.layer_norm(x.Row(t), gain.data(), bias.data(), epsilon, x.columns, y.Row(t));
  });
}

void AddLayerNorm(ThreadPool& pool, MatrixView<const float> delta, std::span<const float> gain,
                  std::span<const float> bias, float epsilon, MatrixView<float> residual,
                  MatrixView<float> y) {
  CHECK(SameShape(delta, residual) && SameShape(delta, y) && Fits(gain, delta) &&
        Fits(bias, delta));
  const VectorKernels& kernels = KernelsFor(pool.instruction_set());
  ForEachRow(pool, y.rows, y.columns, [&](std::int64_t t) {
    kernels.add(delta.Row(t), y.columns, residual.Row(t));
    kernels.layer_norm(residual.Row(t), gain.data(), bias.data(), epsilon, y.columns, y.Row(t));
  });
}

void HeadRmsNorm(ThreadPool& pool, std::span<const float> gain, float epsilon,
                 MatrixView<float> x) {
  const auto head_dim = static_cast<std::int64_t>(gain.size());
  CHECK(head_dim > 0 && x.columns % head_dim == 0);
  const VectorKernels& kernels = KernelsFor(pool.instruction_set());
  ForEachRow(pool, x.rows, x.columns, [&](std::int64_t t) {
    for (float* head = x.Row(t); head < x.Row(t) + x.columns; head += head_dim) {
      kernels.rms_norm(head, gain.data(), epsilon, head_dim, head);
    }
  });
}

void SumSquares(ThreadPool& pool, MatrixView<const float> x, std::int64_t stride,
                std::span<float> sums) {
  CHECK(stride >= 1 && static_cast<std::int64_t>(sums.size()) > (x.rows - 1) * stride);
  const VectorKernels& kernels = KernelsFor(pool.instruction_set());
  ForEachRow(pool, x.rows, x.columns, [&](std::int64_t t) {
    sums[static_cast<std::size_t>(t * stride)] = kernels.sum_of_squares(x.Row(t), x.columns);
  });
}

void NormalizeBySums(ThreadPool& pool, std::span<const float> sums, std::int64_t stride,
                     std::int64_t width, std::span<const float> gain, float epsilon,
                     MatrixView<float> x) {
  CHECK(Fits(gain, x) && width >= x.columns && stride >= 1);
  CHECK(static_cast<std::int64_t>(sums.size()) > (x.rows - 1) * stride);
  const VectorKernels& kernels = KernelsFor(pool.instruction_set());
  ForEachRow(pool, x.rows, x.columns, [&](std::int64_t t) {
    const float mean = sums[static_cast<std::size_t>(t * stride)] / static_cast<float>(width);
    kernels.scale_by_gain(1 / std::sqrt(mean + epsilon), gain.data(), x.columns, x.Row(t));
  });
}

}  // namespace twin::kernels
