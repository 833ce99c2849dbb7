// Activation functions.
#pragma once

#include "core/activation.h"
#include "kernels/matrix_view.h"
#include "kernels/thread_pool.h"

namespace twin::kernels {

using twin::Activation;

// x = activation(x).
// Order     An element's result depends on its value alone, not on its place.
// Error     4e-6 * max(1, |z|), against double precision.
void Activate(ThreadPool& pool, Activation activation, MatrixView<float> x);

// y = activation(gate) * up. Shapes: all [tokens, width]. Aliasing: y may be gate or up.
void ActivateGated(ThreadPool& pool, Activation activation, MatrixView<const float> gate,
                   MatrixView<const float> up, MatrixView<float> y);

}  // namespace twin::kernels
