// Gated DeltaNet: linear attention with a state of fixed size for each sequence.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/matrix_view.h"
#include "kernels/thread_pool.h"

namespace twin::kernels {

// The sequences of a batch. Sequence s has the rows first_row[s] to first_row[s + 1] - 1, which are
// its next tokens; states[s] is what its earlier tokens left, and is replaced. Rows of a sequence
// whose state is null become zero.
struct StateBatch {
  std::span<const std::int32_t> first_row;  // [sequences + 1], never decreasing
  std::span<float* const> states;           // [sequences]
};

// x[t, c] = silu(sum_j taps[j, c] * x[t - J + 1 + j, c]) over the J taps, in place. Inputs before
// the first row come from the state: [J - 1, channels], zeros for a new sequence.
//
// Shapes    x: [tokens, channels]; taps: [J, channels].
// Order     A row depends on its sequence's inputs alone, however they are cut into batches.
// Error     4e-6 relative to the sum of |taps| |x|.
void CausalConvolution(ThreadPool& pool, MatrixView<const float> taps, const StateBatch& batch,
                       MatrixView<float> x);

struct DeltaHeads {
  std::int64_t key_heads = 0;
  std::int64_t value_heads = 0;  // a multiple of key_heads
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;

  [[nodiscard]] std::int64_t key_width() const { return key_heads * key_dim; }
  [[nodiscard]] std::int64_t value_width() const { return value_heads * value_dim; }
  [[nodiscard]] std::int64_t StateFloats() const { return value_heads * key_dim * value_dim; }
};

// The inputs of the delta rule, by row.
struct DeltaInputs {
  MatrixView<const float> queries;    // [tokens, key_width()]
  MatrixView<const float> keys;       // [tokens, key_width()]
  MatrixView<const float> values;     // [tokens, value_width()]
  MatrixView<const float> rates;      // [tokens, value_heads], before the sigmoid
  MatrixView<const float> decays;     // [tokens, value_heads], before the softplus
  std::span<const float> decay;       // [value_heads]: logarithms of positive factors
  std::span<const float> decay_bias;  // [value_heads]
};

// For each value head h, with q and k of key head h / (value_heads / key_heads) scaled to length 1
// (and epsilon 1e-6 below the root), and the state S, [key_dim, value_dim]:
//
//   S   = exp(-exp(decay[h]) * softplus(decays[t, h] + decay_bias[h])) * S
//   S   = S + k (sigmoid(rates[t, h]) * (v - S^T k))^T
//   out = S^T q / sqrt(key_dim)
//
// The state of a sequence is [value_heads, key_dim, value_dim], zeros for a new one.
//
// Shapes    out: [tokens, value_width()]. Aliasing: none.
// Order     Tokens one after the other: a row depends on its sequence alone, however it is cut into
//           batches.
// Source    Yang, Kautz and Hatamizadeh, 2024, arXiv:2412.06464.
void GatedDeltaRule(ThreadPool& pool, const DeltaHeads& heads, const StateBatch& batch,
                    const DeltaInputs& inputs, MatrixView<float> out);

// y[t, i] *= sigmoid(gates[t, i]), where pieces of `width` columns of the gates are `apart` columns
// from each other. REQUIRES: width divides y.columns.
void GateRows(ThreadPool& pool, MatrixView<const float> gates, std::int64_t width,
              std::int64_t apart, MatrixView<float> y);

}  // namespace twin::kernels
