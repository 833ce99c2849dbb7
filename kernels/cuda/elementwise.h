// Small operations on whole matrices on a device. CPU twin: kernels/elementwise.h.
#pragma once

#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {

// y[t, d] += bias[d]; y bf16, fp16 or fp32, bias fp32. Sum in fp32.
void AddBias(StreamView stream, const float* bias, DeviceMatrix y);

// y = scale * y, then, where cap > 0, y = cap * tanh(y / cap). y fp32.
void FinishLogits(StreamView stream, float scale, float cap, DeviceMatrix y);

// Adds to *count the number of elements of x that are not finite. x of any format.
void CountNotFinite(StreamView stream, DeviceMatrix x, int* count);

}  // namespace twin::kernels::cuda
