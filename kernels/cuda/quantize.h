// Rows of 16-bit numbers as rows of fp8 (e4m3) with a scale each, on a device.
#pragma once

#include <cstdint>

#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {

// The largest number of e4m3.
constexpr float kFp8Max = 448;
// Rows whose numbers are all smaller become zeros: both the scale and its inverse stay normal.
constexpr float kQuantizedMin = 0x1p-100F;

// scale[t] = m / 448 with m = max(max_k |x[t, k]|, 2^-100);
// y[t, k] = e4m3(x[t, k] * (448 / m)), rounded to nearest even; 0 behind the columns of x.
//
// Shapes    x: [tokens, k], bf16 or fp16; y.values: [tokens, k or more], kFp8; y.scales: [tokens].
// Error     |scale * y - x| <= 2^-4 |x| + 2^-10 scale, and the rounding of two fp32 operations. A
//           NaN stays one; a row with an infinite number becomes NaN as soon as it is scaled.
// Cost      reads x (a second time from cache), writes y: 3 bytes for each element; one block of
//           threads for each row.
void QuantizeRows(StreamView stream, DeviceMatrix x, ScaledMatrix y);

}  // namespace twin::kernels::cuda
