// Activation functions on a device. CPU twin: kernels/activation.h.
#pragma once

#include "kernels/activation.h"
#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {

// y = activation(x + bias). Shapes: x, y [tokens, width], bf16; bias fp32 [width] or null.
// Aliasing: y may be x. Error: computed in fp32 and rounded once to the format.
void Activate(StreamView stream, Activation activation, DeviceMatrix x, const float* bias,
              DeviceMatrix y);

// y = activation(gate + bias) * (up + bias). Each row of gate_up holds the gate, then the up part.
// Shapes: gate_up [tokens, 2 * width], y [tokens, width]; bias fp32 [2 * width] or null.
// Aliasing: y must not overlap gate_up. Cost: reads gate_up once, writes y once.
void ActivateGated(StreamView stream, Activation activation, DeviceMatrix gate_up,
                   const float* bias, DeviceMatrix y);

}  // namespace twin::kernels::cuda
