// Normalisation of rows: RMSNorm and LayerNorm, optionally with a residual added first.
#pragma once

#include <span>

#include "kernels/matrix_view.h"
#include "kernels/thread_pool.h"

namespace twin::kernels {

// Root-mean-square normalisation of each row:
//
//   y[t, d] = x[t, d] / sqrt(mean_d(x[t, d]^2) + epsilon) * gain[d]
//
// Shapes    x, y: [tokens, hidden]; gain: [hidden].
// Aliasing  y may be x.
// Order     The result of a row depends only on that row.
// Error     2e-6 relative to the row's largest |y|, against double precision.
// Source    Zhang and Sennrich, 2019, arXiv:1910.07467.
void RmsNorm(ThreadPool& pool, MatrixView<const float> x, std::span<const float> gain,
             float epsilon, MatrixView<float> y);

// residual += delta, then y = RmsNorm(residual). Aliasing: y may be delta.
void AddRmsNorm(ThreadPool& pool, MatrixView<const float> delta, std::span<const float> gain,
                float epsilon, MatrixView<float> residual, MatrixView<float> y);

// y[t, d] = (x[t, d] - mean_d) / sqrt(variance_d + epsilon) * gain[d] + bias[d], with the variance
// of all `hidden` elements (the sum of squares is divided by hidden). Otherwise as RmsNorm.
// Source: Ba, Kiros and Hinton, 2016, arXiv:1607.06450.
void LayerNorm(ThreadPool& pool, MatrixView<const float> x, std::span<const float> gain,
               std::span<const float> bias, float epsilon, MatrixView<float> y);

// residual += delta, then y = LayerNorm(residual). Aliasing: y may be delta.
void AddLayerNorm(ThreadPool& pool, MatrixView<const float> delta, std::span<const float> gain,
                  std::span<const float> bias, float epsilon, MatrixView<float> residual,
                  MatrixView<float> y);

// RmsNorm of each head separately, in place. x is [tokens, heads * gain.size()].
// REQUIRES: gain.size() divides x.columns.
void HeadRmsNorm(ThreadPool& pool, std::span<const float> gain, float epsilon, MatrixView<float> x);

// RmsNorm of rows that several ranks hold in parts: sums[t] = sum_d(x[t, d]^2) of a rank's part,
// and then, with the sums of all parts, x[t, d] *= gain[d] / sqrt(sums[t * stride] / width +
// epsilon) in place. `width` counts the elements of all parts. sums[t] is written at sums[t *
// stride].
void SumSquares(ThreadPool& pool, MatrixView<const float> x, std::int64_t stride,
                std::span<float> sums);
void NormalizeBySums(ThreadPool& pool, std::span<const float> sums, std::int64_t stride,
                     std::int64_t width, std::span<const float> gain, float epsilon,
                     MatrixView<float> x);

}  // namespace twin::kernels
