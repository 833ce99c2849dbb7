// Linear layers with weights of 4 bits on a device. CPU twin: Gemm with weights of kInt4.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/stream.h"
#include "kernels/thread_pool.h"
#include "kernels/weight_matrix.h"

namespace twin::kernels::cuda {

// Rows of Int4Matrix are multiples of this many columns: 16 bytes.
constexpr std::int64_t kInt4Pack = 32;
// Int4Gemm takes up to this many tokens. It reads the weights once for every kInt4Tokens of them.
constexpr std::int64_t kInt4Tokens = 8;
constexpr std::int64_t kInt4TokensMax = 2 * kInt4Tokens;

// A borrowed matrix in device memory: w[n, k] = (q[n, k] - zeros[n, k / group]) *
// scales[n, k / group], exact in fp32. Two columns share a byte, the even one in its low bits.
struct Int4Matrix {
  const std::uint8_t* q = nullptr;      // [rows, stride / 2]
  const float* scales = nullptr;        // [rows, groups()]
  const std::uint8_t* zeros = nullptr;  // likewise
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;  // columns from one row to the next, a multiple of kInt4Pack
  std::int64_t group = 0;   // columns, a multiple of kInt4Pack

  [[nodiscard]] std::int64_t groups() const { return (columns + group - 1) / group; }
};

// The arrays of an Int4Matrix on the host.
struct Int4Rows {
  std::vector<std::uint8_t> q;
  std::vector<float> scales;
  std::vector<std::uint8_t> zeros;
  std::int64_t stride = 0;
};
// The same numbers as `weights`. REQUIRES: weights of kInt4, in the order of their inputs.
Int4Rows RowsOfInt4(ThreadPool& pool, const WeightView& weights);

// True if Int4Gemm supports the operands: 1 to kInt4TokensMax rows of x, which are aligned to 16
// bytes and have a multiple of 8 columns.
bool TakesInt4Gemm(const DeviceMatrix& x, const Int4Matrix& w, const DeviceMatrix& y);

// y[t, n] = sum_k x[t, k] * w[n, k].
//
// Shapes    x: [tokens, k], bf16 or fp16; y: [tokens, n], in the same format or fp32.
// Order     Accumulates in fp32. The order of the sum over k is fixed and independent of the number
//           of tokens: a row has the same bits alone and in a batch.
// Cost      Reads w once for each kInt4Tokens tokens, at memory bandwidth for few of them.
void Int4Gemm(StreamView stream, DeviceMatrix x, const Int4Matrix& w, DeviceMatrix y);

// to[n, k] = w[n, k], rounded to nearest even. `to` is bf16 or fp16, of the same shape. Cost: reads
// w, writes 2 bytes per weight.
void WidenInt4(StreamView stream, const Int4Matrix& w, DeviceMatrix to);

}  // namespace twin::kernels::cuda
