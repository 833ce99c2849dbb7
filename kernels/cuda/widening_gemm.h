// Linear layers with weights of 4 bits or fp8 (e4m3), widened in the product or before it, for
// inputs of 16 bits. CPU twin of 4 bits: Gemm with weights of kInt4.
#pragma once

#include <cstdint>

#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/int4_rows.h"
#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {

// Rows of fp8 matrices are multiples of this many columns here: 16 bytes.
constexpr std::int64_t kFp8Pack = 16;
// WideningGemm takes up to kWideningTokensMax tokens. It reads the weights once for every
// kWideningTokens of them.
constexpr std::int64_t kWideningTokens = 8;
constexpr std::int64_t kWideningTokensMax = 2 * kWideningTokens;

// True if WideningGemm supports the operands: 1 to kWideningTokensMax rows of x, which are aligned
// to 16 bytes and have a multiple of 8 columns.
bool TakesWideningGemm(const DeviceMatrix& x, const Int4Matrix& w, const DeviceMatrix& y);
bool TakesWideningGemm(const DeviceMatrix& x, const ScaledMatrix& w, const DeviceMatrix& y);

// y[t, n] = sum_k x[t, k] * w[n, k].
//
// Shapes    x: [tokens, k], bf16; y: [tokens, n], bf16 or fp32. The values of an fp8 w are aligned
//           to 16 bytes, and its stride is a multiple of kFp8Pack.
// Order     Accumulates in fp32; an fp8 row's scale is applied to the sum. The order of the sum
//           over k is fixed and independent of the number of tokens: a row has the same bits alone
//           and in a batch.
// Cost      Reads w once for each kWideningTokens tokens, at memory bandwidth for few of them.
void WideningGemm(StreamView stream, DeviceMatrix x, const Int4Matrix& w, DeviceMatrix y);
void WideningGemm(StreamView stream, DeviceMatrix x, const ScaledMatrix& w, DeviceMatrix y);

// to[n, k] = w[n, k], rounded to nearest even; the product of an fp8 number with its scale is
// rounded to fp32 before. `to` is bf16, of the same shape. Cost: reads w, writes 2 bytes per
// weight.
void Widen(StreamView stream, const Int4Matrix& w, DeviceMatrix to);
void Widen(StreamView stream, const ScaledMatrix& w, DeviceMatrix to);

}  // namespace twin::kernels::cuda
