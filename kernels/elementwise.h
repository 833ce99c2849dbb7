// Elementwise operations on matrices, and lookups and copies of rows.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/matrix_view.h"
#include "kernels/thread_pool.h"
#include "kernels/weight_matrix.h"

namespace twin::kernels {

// y += x. Shapes: equal.
void Add(ThreadPool& pool, MatrixView<const float> x, MatrixView<float> y);

// y[t, d] += bias[d].
void AddBias(ThreadPool& pool, std::span<const float> bias, MatrixView<float> y);

// y *= factor.
void Scale(ThreadPool& pool, float factor, MatrixView<float> y);

// y = cap * tanh(y / cap). REQUIRES: cap > 0. Error: 4e-6 * cap.
void SoftCap(ThreadPool& pool, float cap, MatrixView<float> y);

// y[t] = table[ids[t]]. REQUIRES: 0 <= id < table.rows.
void EmbedRows(ThreadPool& pool, const WeightView& table, std::span<const std::int32_t> ids,
               MatrixView<float> y);

// y[t] += table[ids[t]]. REQUIRES: 0 <= id < table.rows.
void AddEmbeddedRows(ThreadPool& pool, const WeightView& table, std::span<const std::int32_t> ids,
                     MatrixView<float> y);

// Copies pieces of each row: y[t, p * y_apart + i] = x[t, p * x_apart + i] for p < pieces and i <
// width. Aliasing: none. REQUIRES: the pieces lie within the rows.
struct PieceCopy {
  std::int64_t pieces = 0;
  std::int64_t width = 0;
  std::int64_t x_apart = 0;
  std::int64_t y_apart = 0;
};
void CopyPieces(ThreadPool& pool, MatrixView<const float> x, const PieceCopy& copy,
                MatrixView<float> y);

// y[i] = x[rows[i]]. Aliasing: none. REQUIRES: 0 <= row < x.rows.
void GatherRows(ThreadPool& pool, MatrixView<const float> x, std::span<const std::int32_t> rows,
                MatrixView<float> y);

}  // namespace twin::kernels
