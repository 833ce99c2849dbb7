// Normalisation of rows on a device, with the residual additions that go with it.
// CPU twin: kernels/norm.h.
#pragma once

#include "core/model_spec.h"
#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {

// What a norm needs, in device memory: fp32 [hidden] each; `bias` of LayerNorm alone.
struct DeviceNorm {
  NormKind kind{};
  const float* gain = nullptr;
  const float* bias = nullptr;
  float epsilon = 0;
};

// What is added to a residual stream: scale * (delta + bias).
struct DeviceSummand {
  DeviceMatrix delta;
  const float* bias = nullptr;  // fp32 [hidden], or none
  float scale = 1;
};

// y = norm(x), as RmsNorm and LayerNorm of kernels/norm.h.
//
// Shapes    x, y: [tokens, hidden], of one format, bf16 or fp16.
// Aliasing  y may be x.
// Error     computed in fp32 (one pass over x, kept in registers or shared memory) and rounded once
//           to the format; LayerNorm's variance is that of the centred values.
// Cost      reads x, writes y; one block of threads for each row.
void Normalize(StreamView stream, DeviceMatrix x, const DeviceNorm& norm, DeviceMatrix y);

// residual += summand, rounded to the format; then y = norm(residual) of the rounded values.
// Aliasing: y may be summand.delta. Cost: reads both, writes both.
void AddNormalize(StreamView stream, const DeviceSummand& summand, const DeviceNorm& norm,
                  DeviceMatrix residual, DeviceMatrix y);

// residual += summand, rounded to the format.
void Add(StreamView stream, const DeviceSummand& summand, DeviceMatrix residual);

}  // namespace twin::kernels::cuda
