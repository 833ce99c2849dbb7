// Linear layers: activations times packed weights.
#pragma once

#include <span>

#include "kernels/matrix_view.h"
#include "kernels/thread_pool.h"
#include "kernels/weight_matrix.h"

namespace twin::kernels {

struct GemmOptions {
  std::span<const float> bias;  // one per output, or empty
  bool accumulate = false;      // y += instead of y =
};

// y[t, n] = sum_k x[t, k] * w[n, k] + bias[n], or y[t, n] + that.
//
// Shapes    x: [tokens, w.columns];  y: [tokens, w.rows]. tokens may be 0.
// Aliasing  y overlaps neither x nor the weights.
// Order     Columns are cut into blocks of 192; within a block one fp32 accumulator takes the
//           products in ascending k, starting from zero (fused multiply-add on AVX2 and AVX-512);
//           the block sums are added in ascending order to the start value: 0, bias, y or
//           y + bias. So an element depends on its row of x and its row of w alone: equal bits
//           whatever the other rows, the number of threads, and whether the set is AVX2 or AVX-512.
//           bf16 and int8 weights are widened to fp32 first (int8: q * scale rounded to fp32);
//           activations are not rounded.
// Pairs     kAvx512Bf16 with bf16 weights: activations are rounded to bf16, to nearest even.
//           Columns are taken in pairs, 384 to a block, the odd one of a pair first; numbers
//           below 2^-126 count as zero. All else holds as above, for any number of rows.
// Error     |y - exact| <= 2e-5 * sum_k |x| |w| (+ |bias|), the exact sum over the packed weights.
//           In pairs 3e-5, the exact sum taken over rounded activations: relative to x itself,
//           rounding adds at most 2^-8.
// Cost      Weights are read once for up to some hundred tokens: memory-bound up to about 16
// tokens.
void Gemm(ThreadPool& pool, MatrixView<const float> x, const WeightView& w,
          const GemmOptions& options, MatrixView<float> y);

}  // namespace twin::kernels
