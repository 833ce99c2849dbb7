// Element-wise operations on matrices on a device. CPU twin: kernels/elementwise.h.
#pragma once

#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {

// y[t, d] += bias[d], summed in fp32. y is bf16 or fp32; bias is fp32.
void AddBias(StreamView stream, const float* bias, DeviceMatrix y);

// y = scale * y; then, if cap > 0, y = cap * tanh(y / cap). y is fp32.
void FinishLogits(StreamView stream, float scale, float cap, DeviceMatrix y);

// *count += the number of elements of x that are not finite. x has any format; `count` is in device
// memory.
void CountNotFinite(StreamView stream, DeviceMatrix x, int* count);

}  // namespace twin::kernels::cuda
