// Linear layers: activations times packed weights.
#pragma once

#include <span>

#include "kernels/matrix_view.h"
#include "kernels/thread_pool.h"
#include "kernels/weight_matrix.h"

namespace twin::kernels {

struct GemmOptions {
  std::span<const float> bias;  // one value per output, or empty
  bool accumulate = false;      // y += instead of y =
};

// y[t, n] = sum_k x[t, k] * w[n, k] + bias[n], plus the old y[t, n] if `accumulate`.
//
// Shapes    x: [tokens, w.columns];  y: [tokens, w.rows]. tokens may be 0.
// Aliasing  y overlaps neither x nor the weights.
// Order     Columns are divided into blocks of 192. Within a block, one fp32 accumulator sums the
//           products in ascending k, starting from zero (fused multiply-add on AVX2 and AVX-512).
//           The block sums are added in ascending order to the start value: 0, bias, y or
//           y + bias. An element therefore depends only on its row of x and its row of w: its bits
//           are the same for any other rows, any number of threads, and both AVX2 and AVX-512.
//           bf16, int8 and int4 weights are widened to fp32 first (int8: q * scale rounded to
//           fp32; int4: exactly). If int4 columns are in an order of their own, k counts in that
//           order. Activations are not rounded.
// Pairs     With kAvx512Bf16 and bf16 weights, activations are rounded to bf16, to nearest even.
//           Columns are processed in pairs, 384 per block, the odd one of a pair first; numbers
//           below 2^-126 count as zero. All else holds as above, for any number of rows.
// Error     |y - exact| <= 2e-5 * sum_k |x| |w| (+ |bias|), where `exact` is the exact result for
//           the packed weights. With pairs, 3e-5, and `exact` is that for the rounded activations;
//           rounding them adds at most 2^-8 relative to x.
// Cost      Weights are read once for up to some hundred tokens; memory-bound up to about 16.
void Gemm(ThreadPool& pool, MatrixView<const float> x, const WeightView& w,
          const GemmOptions& options, MatrixView<float> y);

}  // namespace twin::kernels
