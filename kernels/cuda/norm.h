// Row normalisation on a device, fused with residual additions.
// CPU twin: kernels/norm.h.
#pragma once

#include "core/model_spec.h"
#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {

// Parameters of a norm. `gain` and `bias` are fp32 [hidden] in device memory; only LayerNorm has a
// bias.
struct DeviceNorm {
  NormKind kind{};
  const float* gain = nullptr;
  const float* bias = nullptr;
  float epsilon = 0;
};

// The term scale * (delta + bias), which is added to a residual stream.
struct DeviceSummand {
  DeviceMatrix delta;
  const float* bias = nullptr;  // fp32 [hidden], or null
  float scale = 1;
};

// y = norm(x), as RmsNorm and LayerNorm of kernels/norm.h.
//
// Shapes    x, y: [tokens, hidden], both bf16.
// Aliasing  y may be x.
// Error     Computes in fp32 and rounds once to the format. LayerNorm computes its variance from
//           the centred values.
// Cost      Reads x once (rows are kept in registers if they fit), writes y. One block per row.
void Normalize(StreamView stream, DeviceMatrix x, const DeviceNorm& norm, DeviceMatrix y);

// residual += summand, rounded to the format; then y = norm(residual) of the rounded values.
// Aliasing: y may be summand.delta. Cost: reads delta and residual, writes residual and y.
void AddNormalize(StreamView stream, const DeviceSummand& summand, const DeviceNorm& norm,
                  DeviceMatrix residual, DeviceMatrix y);

// residual += summand, rounded to the format.
void Add(StreamView stream, const DeviceSummand& summand, DeviceMatrix residual);

}  // namespace twin::kernels::cuda
