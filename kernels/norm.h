// Normalisation of rows.
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
// Order     A row's result depends on that row alone.
// Error     relative to the row's largest |y|, against double precision: 2e-6.
// Source    Zhang and Sennrich, 2019, arXiv:1910.07467.
void RmsNorm(ThreadPool& pool, MatrixView<const float> x, std::span<const float> gain,
             float epsilon, MatrixView<float> y);

// residual += delta, then y = RmsNorm(residual). Aliasing: y may be delta.
void AddRmsNorm(ThreadPool& pool, MatrixView<const float> delta, std::span<const float> gain,
                float epsilon, MatrixView<float> residual, MatrixView<float> y);

// y[t, d] = (x[t, d] - mean_d) / sqrt(variance_d + epsilon) * gain[d] + bias[d], the variance over
// all `hidden` elements (divided by hidden). Otherwise as RmsNorm.
// Source: Ba, Kiros and Hinton, 2016, arXiv:1607.06450.
void LayerNorm(ThreadPool& pool, MatrixView<const float> x, std::span<const float> gain,
               std::span<const float> bias, float epsilon, MatrixView<float> y);

// residual += delta, then y = LayerNorm(residual). Aliasing: y may be delta.
void AddLayerNorm(ThreadPool& pool, MatrixView<const float> delta, std::span<const float> gain,
                  std::span<const float> bias, float epsilon, MatrixView<float> residual,
                  MatrixView<float> y);

// RmsNorm of each head by itself, in place: x is [tokens, heads * gain.size()].
// REQUIRES: gain.size() divides x.columns.
void HeadRmsNorm(ThreadPool& pool, std::span<const float> gain, float epsilon, MatrixView<float> x);

}  // namespace twin::kernels
