// Linear layers for a few tokens on a device (skinny matrix products). CPU twin: Gemm.
#pragma once

#include <cstdint>

#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {

constexpr std::int64_t kSkinnyRows = 8;

// True if SkinnyGemm supports the operands: 1 to kSkinnyRows rows of x, rows aligned to 16 bytes,
// and a number of columns that is a multiple of 8.
bool TakesSkinnyGemm(const DeviceMatrix& x, const DeviceMatrix& w, const DeviceMatrix& y);

// y[t, n] = sum_k x[t, k] * w[n, k].
//
// Shapes    x: [tokens, k], w: [n, k], both bf16; y: [tokens, n], bf16
//           or fp32.
// Order     Accumulates in fp32. The order of the sum over k is fixed and independent of the number
//           of tokens: a row has the same bits alone and in a batch.
// Cost      Reads w once, at memory bandwidth.
void SkinnyGemm(StreamView stream, DeviceMatrix x, DeviceMatrix w, DeviceMatrix y);

}  // namespace twin::kernels::cuda
