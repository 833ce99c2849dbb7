// Activation functions on a device. CPU twin: kernels/activation.h.
#pragma once

#include "kernels/activation.h"
#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {

// y = activation(x + bias). Shapes: x, y [tokens, width], bf16 or fp16; bias fp32 [width] or null.
// Aliasing: y may be x. Error: computed in fp32, rounded once.
void Activate(StreamView stream, Activation activation, DeviceMatrix x, const float* bias,
              DeviceMatrix y);

// y = activation(gate + bias) * (up + bias), where gate_up is [tokens, 2 * width], gate first;
// bias fp32 [2 * width] or null; y [tokens, width]. Aliasing: none.
// Cost: reads gate_up, writes y.
void ActivateGated(StreamView stream, Activation activation, DeviceMatrix gate_up,
                   const float* bias, DeviceMatrix y);

}  // namespace twin::kernels::cuda
