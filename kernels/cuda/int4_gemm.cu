#include <algorithm>

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/int4_gemm.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/vector_io.cuh"

namespace twin::kernels::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
// Outputs per block: each thread streams this many rows of w, kInt4Pack columns at a time, and has
// the next ones on their way.
constexpr int kOutputs = 4;
constexpr int kWidth = 8;  // columns of x that are loaded at a time

using Packed = Pack<std::uint8_t, kPackBytes>;

// (q - zero) * scale of kWidth columns from byte kWidth / 2 * part of a pack on.
__device__ __forceinline__ void Unpack(const Packed& pack, int part, float zero, float scale,
                                       float (&weights)[kWidth]) {
#pragma unroll
  for (int i = 0; i < kWidth; i += 2) {
    const unsigned pair = pack.values[(part * kWidth + i) / 2];
    weights[i] = (static_cast<float>(pair & 0xFU) - zero) * scale;
    weights[i + 1] = (static_cast<float>(pair >> 4U) - zero) * scale;
  }
}

// The rows of w that a block computes.
struct BlockRows {
  const std::uint8_t* q[kOutputs];
  const float* scales[kOutputs];
  const std::uint8_t* zeros[kOutputs];
};

__device__ __forceinline__ BlockRows RowsOfBlock(const Int4Matrix& w, std::int64_t groups,
                                                 std::int64_t first) {
  BlockRows rows;
#pragma unroll
  for (int n = 0; n < kOutputs; ++n) {
    const std::int64_t row = min(first + n, w.rows - 1);
    rows.q[n] = w.q + row * (w.stride / 2);
    rows.scales[n] = w.scales + row * groups;
    rows.zeros[n] = w.zeros + row * groups;
  }
  return rows;
}

// The pack of `column` of each row; zeros behind the end of a row.
__device__ __forceinline__ void LoadPacks(const BlockRows& rows, std::int64_t column,
                                          std::int64_t stride, Packed (&packs)[kOutputs]) {
#pragma unroll
  for (int n = 0; n < kOutputs; ++n) {
    packs[n] = column < stride ? Load<kPackBytes>(rows.q[n] + column / 2) : Packed{};
  }
}

// The products of the kInt4Pack columns from `column` on.
template <class T, int kTokens>
__device__ __forceinline__ void AccumulatePack(const Packed (&packs)[kOutputs],
                                               const float (&scales)[kOutputs],
                                               const float (&zeros)[kOutputs],
                                               DeviceRows<const T> x, std::int64_t tokens,
                                               std::int64_t column, std::int64_t columns,
                                               float (&sums)[kOutputs][kTokens]) {
#pragma unroll
  for (int part = 0; part < static_cast<int>(kInt4Pack) / kWidth; ++part) {
    const std::int64_t first = column + part * kWidth;
    if (first >= columns) break;
    float weights[kOutputs][kWidth];
#pragma unroll
    for (int n = 0; n < kOutputs; ++n) Unpack(packs[n], part, zeros[n], scales[n], weights[n]);
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      float inputs[kWidth];
      LoadFloats<kWidth>(x.Row(min(std::int64_t{t}, tokens - 1)) + first, inputs);
#pragma unroll
      for (int n = 0; n < kOutputs; ++n) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
          sums[n][t] = fmaf(inputs[i], weights[n][i], sums[n][t]);
        }
      }
    }
  }
}

// The warps of a block take the packs of the rows in turn; their sums are added in warp order.
// `tokens` may be less than kTokens.
template <class T, class Out, int kTokens>
__global__ void __launch_bounds__(kThreads)
    Int4GemmKernel(DeviceRows<const T> x, Int4Matrix w, std::int64_t groups, DeviceRows<Out> y,
                   std::int64_t tokens) {
  constexpr std::int64_t kStep = kThreads * kInt4Pack;
  const std::int64_t first = std::int64_t{blockIdx.x} * kOutputs;
  const BlockRows rows = RowsOfBlock(w, groups, first);
  std::int64_t column = std::int64_t{threadIdx.x} * kInt4Pack;
  Packed packs[kOutputs];
  LoadPacks(rows, column, w.stride, packs);  // may precede the wait: no kernel writes weights
  WaitForEarlierKernels();

  float sums[kOutputs][kTokens] = {};
  for (; column < w.columns; column += kStep) {
    Packed next[kOutputs];
    LoadPacks(rows, column + kStep, w.stride, next);
    const std::int64_t group = column / w.group;
    float scales[kOutputs];
    float zeros[kOutputs];
#pragma unroll
    for (int n = 0; n < kOutputs; ++n) {
      scales[n] = rows.scales[n][group];
      zeros[n] = static_cast<float>(rows.zeros[n][group]);
    }
    AccumulatePack<T, kTokens>(packs, scales, zeros, x, tokens, column, w.columns, sums);
#pragma unroll
    for (int n = 0; n < kOutputs; ++n) packs[n] = next[n];
  }

  WriteBlockSums<kWarps>(sums, [&](int n, int t, float sum) {
    if (first + n < w.rows && t < tokens) y.Row(t)[first + n] = Rounded<Out>(sum);
  });
}

template <class T, class Out>
void MultiplyInt4(StreamView stream, const DeviceMatrix& x, const Int4Matrix& w,
                  const DeviceMatrix& y) {
  const LaunchShape shape{dim3(static_cast<unsigned>((w.rows + kOutputs - 1) / kOutputs)),
                          kThreads};
  const auto launch = [&](auto kernel) {
    Launch(stream, shape, "Int4Gemm", kernel, RowsOf<const T>(x), w, w.groups(), RowsOf<Out>(y),
           x.rows);
  };
  if (x.rows == 1) return launch(&Int4GemmKernel<T, Out, 1>);
  if (x.rows == 2) return launch(&Int4GemmKernel<T, Out, 2>);
  if (x.rows <= 4) return launch(&Int4GemmKernel<T, Out, 4>);
  launch(&Int4GemmKernel<T, Out, static_cast<int>(kInt4Tokens)>);
}

template <class T, int kColumns>
__global__ void WidenInt4Kernel(Int4Matrix w, std::int64_t groups, DeviceRows<T> to) {
  WaitForEarlierKernels();
  const std::int64_t column =
      (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * std::int64_t{kColumns};
  if (column >= w.columns) return;
  for (std::int64_t row = blockIdx.y; row < w.rows; row += gridDim.y) {
    const std::int64_t place = row * groups + column / w.group;
    const float scale = w.scales[place];
    const float zero = static_cast<float>(w.zeros[place]);
    const std::uint8_t* const from = w.q + row * (w.stride / 2);
    float values[kColumns];
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      const std::int64_t k = column + i;
      const unsigned pair = from[k / 2];
      values[i] = (static_cast<float>(k % 2 == 0 ? pair & 0xFU : pair >> 4U) - zero) * scale;
    }
    StoreRounded<kColumns>(values, to.Row(row) + column);
  }
}

}  // namespace

bool TakesInt4Gemm(const DeviceMatrix& x, const Int4Matrix& w, const DeviceMatrix& y) {
  const bool formats = ByteSize(x.dtype) == 2 && (y.dtype == x.dtype || y.dtype == DType::kFp32);
  return formats && x.rows >= 1 && x.rows <= kInt4TokensMax && IsPacked(x) && w.rows >= 1;
}

void Int4Gemm(StreamView stream, DeviceMatrix x, const Int4Matrix& w, DeviceMatrix y) {
  CHECK(TakesInt4Gemm(x, w, y));
  CHECK(x.columns == w.columns && y.columns == w.rows && y.rows == x.rows);
  CHECK(w.stride % kInt4Pack == 0 && w.group % kInt4Pack == 0 && IsPacked(w.q));
  WithElement16(x.dtype, [&]<class T>(T) {
    for (std::int64_t first = 0; first < x.rows; first += kInt4Tokens) {
      const std::int64_t count = std::min(kInt4Tokens, x.rows - first);
      if (y.dtype == DType::kFp32) {
        MultiplyInt4<T, float>(stream, x.Rows(first, count), w, y.Rows(first, count));
      } else {
        MultiplyInt4<T, T>(stream, x.Rows(first, count), w, y.Rows(first, count));
      }
    }
  });
}

void WidenInt4(StreamView stream, const Int4Matrix& w, DeviceMatrix to) {
  CHECK(to.rows == w.rows && to.columns == w.columns);
  WithElement16(to.dtype, [&]<class T>(T) {
    if (IsPacked(to)) {
      Launch(stream, RowGrid(w.rows, w.columns / kPackWidth<T>), "WidenInt4",
             &WidenInt4Kernel<T, kPackWidth<T>>, w, w.groups(), RowsOf<T>(to));
    } else {
      Launch(stream, RowGrid(w.rows, w.columns), "WidenInt4", &WidenInt4Kernel<T, 1>, w, w.groups(),
             RowsOf<T>(to));
    }
  });
}

}  // namespace twin::kernels::cuda
