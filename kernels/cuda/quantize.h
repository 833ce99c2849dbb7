// Quantizes rows of 16-bit numbers to fp8 (e4m3) with one scale per row, on a device.
#pragma once

#include <cstdint>

#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {

// The largest finite value of e4m3.
constexpr float kFp8Max = 448;
// Lower bound of the row maximum that the scale is computed from, so that the scale and its inverse
// are normal numbers. Rows below it become zero.
constexpr float kQuantizedMin = 0x1p-100F;

// scale[t] = m / 448 with m = max(max_k |x[t, k]|, 2^-100);
// y[t, k] = e4m3(x[t, k] * (448 / m)), rounded to nearest even; 0 after the last column of x.
//
// Shapes    x: [tokens, k], bf16; y.values: [tokens, k or more], kFp8; y.scales: [tokens].
// Error     |scale * y - x| <= 2^-4 |x| + 2^-10 scale, plus the rounding of two fp32 operations.
//           NaN stays NaN. A row with an infinite element becomes NaN when its scale is applied.
// Cost      Reads x (a second time from cache), writes y: 3 bytes per element. One block per row.
void QuantizeRows(StreamView stream, DeviceMatrix x, ScaledMatrix y);

}  // namespace twin::kernels::cuda
