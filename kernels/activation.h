// Applies activation functions to matrices, with or without a gate.
#pragma once

#include "core/activation.h"
#include "kernels/matrix_view.h"
#include "kernels/thread_pool.h"

namespace twin::kernels {

using twin::Activation;

// x = activation(x), in place.
// Order     The result of an element depends only on its value, not on its position.
// Error     4e-6 * max(1, |z|) for an input z, against double precision.
void Activate(ThreadPool& pool, Activation activation, MatrixView<float> x);

// y = activation(gate) * up. Shapes: all [tokens, width]. Aliasing: y may be gate or up.
void ActivateGated(ThreadPool& pool, Activation activation, MatrixView<const float> gate,
                   MatrixView<const float> up, MatrixView<float> y);

// y = min(gate, limit) * sigmoid(1.702 * min(gate, limit)) * (1 + up), with up clamped to [-limit,
// limit]. Shapes and aliasing as ActivateGated. Error: 4e-6 * limit^2. Source: the experts of
// gpt-oss, arXiv:2508.10925, section 2.2.
void ActivateClamped(ThreadPool& pool, float limit, MatrixView<const float> gate,
                     MatrixView<const float> up, MatrixView<float> y);

}  // namespace twin::kernels
