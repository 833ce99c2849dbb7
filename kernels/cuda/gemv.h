// Linear layers of very few tokens on a device. CPU twin: Gemm.
#pragma once

#include <cstdint>

#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {

constexpr std::int64_t kSkinnyRows = 4;

// True if SkinnyGemm takes these operands: 1 to kSkinnyRows rows, 16-byte aligned rows, columns a
// multiple of 8.
bool TakesSkinnyGemm(const DeviceMatrix& x, const DeviceMatrix& w, const DeviceMatrix& y);

// y[t, n] = sum_k x[t, k] * w[n, k].
//
// Shapes    x: [tokens, k], w: [n, k], one format, bf16 or fp16; y: [tokens, n], that or fp32.
// Order     fp32 accumulators; each output's k is summed in one fixed order whatever the tokens
//           beside it: equal bits for a row alone and with others.
// Cost      reads w once: at memory bandwidth.
void SkinnyGemm(StreamView stream, DeviceMatrix x, DeviceMatrix w, DeviceMatrix y);

}  // namespace twin::kernels::cuda
