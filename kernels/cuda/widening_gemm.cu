#include <algorithm>
#include <bit>
#include <limits>

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/vector_io.cuh"
#include "kernels/cuda/widening_gemm.h"

namespace twin::kernels::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
// Outputs per block: each thread streams this many rows of w, a pack at a time, with the next packs
// in flight.
constexpr int kOutputs = 4;
constexpr int kWidth = 8;  // columns of x that are loaded at a time

using Packed = Pack<std::uint8_t, kPackBytes>;

// The kernels below take weights of any type with these members:
//   kPack                     columns of a pack of 16 bytes
//   rows, columns, stride     of the matrix, in columns
//   Row, RowAt(n)             where row n is; Row::bytes are its packs
//   Group, GroupAt(row, k)    what the columns of k's pack share
//   Weight(bytes, k, group)   column k of the packs from `bytes` on, in fp32
//   Scaled(value, n)          a weight, or a sum of products with weights, with the scale of row n

struct Int4Weights : Int4Matrix {
  static constexpr int kPack = static_cast<int>(kInt4Pack);
  struct Row {
    const std::uint8_t* bytes;
    const float* scales;
    const std::uint8_t* zeros;
  };
  struct Group {
    float scale;
    float zero;
  };

  std::int64_t row_groups = 0;

  __device__ __forceinline__ Row RowAt(std::int64_t n) const {
    return {q + n * (stride / 2), scales + n * row_groups, zeros + n * row_groups};
  }
  __device__ __forceinline__ Group GroupAt(const Row& row, std::int64_t k) const {
    return {row.scales[k / group], static_cast<float>(row.zeros[k / group])};
  }
  __device__ static __forceinline__ float Weight(const std::uint8_t* bytes, std::int64_t k,
                                                 const Group& of) {
    const unsigned pair = bytes[k / 2];
    return (static_cast<float>(k % 2 == 0 ? pair & 0xFU : pair >> 4U) - of.zero) * of.scale;
  }
  __device__ __forceinline__ float Scaled(float value, std::int64_t /*n*/) const { return value; }
};

// Converts exactly. Exponent and fraction of e4m3, moved to their place in an fp32 number, give a
// number that is 2^120 times too small, also for subnormal numbers.
__device__ __forceinline__ float Fp8ToFloat(std::uint8_t bits) {
  constexpr unsigned kNan = 0x7FU;
  if ((bits & kNan) == kNan) return std::numeric_limits<float>::quiet_NaN();
  const int spread = static_cast<int>(std::uint32_t{bits} << 24U) >> 4;  // the sign stays on top
  return std::bit_cast<float>(static_cast<std::uint32_t>(spread) & 0x87F00000U) * 0x1p120F;
}

struct Fp8Weights {
  static constexpr int kPack = static_cast<int>(kFp8Pack);
  struct Row {
    const std::uint8_t* bytes;
  };
  struct Group {};

  const std::uint8_t* values = nullptr;
  const float* scales = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;

  __device__ __forceinline__ Row RowAt(std::int64_t n) const { return {values + n * stride}; }
  __device__ __forceinline__ Group GroupAt(const Row& /*row*/, std::int64_t /*k*/) const {
    return {};
  }
  __device__ static __forceinline__ float Weight(const std::uint8_t* bytes, std::int64_t k,
                                                 const Group& /*of*/) {
    return Fp8ToFloat(bytes[k]);
  }
  __device__ __forceinline__ float Scaled(float value, std::int64_t n) const {
    return value * scales[n];
  }
};

// The rows of w that a block computes.
template <class Weights>
struct BlockRows {
  typename Weights::Row rows[kOutputs];
};

template <class Weights>
__device__ __forceinline__ BlockRows<Weights> RowsOfBlock(const Weights& w, std::int64_t first) {
  BlockRows<Weights> block;
#pragma unroll
  for (int n = 0; n < kOutputs; ++n) block.rows[n] = w.RowAt(min(first + n, w.rows - 1));
  return block;
}

// Loads the pack of `column` of each row; zeros after the end of a row.
template <class Weights>
__device__ __forceinline__ void LoadPacks(const BlockRows<Weights>& block, std::int64_t column,
                                          std::int64_t stride, Packed (&packs)[kOutputs]) {
  constexpr std::int64_t kColumnsOfByte = Weights::kPack / kPackBytes;
#pragma unroll
  for (int n = 0; n < kOutputs; ++n) {
    packs[n] = column < stride ? Load<kPackBytes>(block.rows[n].bytes + column / kColumnsOfByte)
                               : Packed{};
  }
}

// The products of a pack's columns, from `column` on.
template <class Weights, int kTokens>
__device__ __forceinline__ void AccumulatePack(const Packed (&packs)[kOutputs],
                                               const typename Weights::Group (&groups)[kOutputs],
                                               DeviceRows<const Bf16> x, std::int64_t tokens,
                                               std::int64_t column, std::int64_t columns,
                                               float (&sums)[kOutputs][kTokens]) {
#pragma unroll
  for (int part = 0; part < Weights::kPack / kWidth; ++part) {
    const std::int64_t first = column + part * kWidth;
    if (first >= columns) break;
    float weights[kOutputs][kWidth];
#pragma unroll
    for (int n = 0; n < kOutputs; ++n) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        weights[n][i] = Weights::Weight(packs[n].values, part * kWidth + i, groups[n]);
      }
    }
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

// The threads of a block take the packs of the rows in turn; their sums are added in a fixed order.
// `tokens` may be less than kTokens.
template <class Weights, class Out, int kTokens>
__global__ void __launch_bounds__(kThreads)
    WideningGemmKernel(DeviceRows<const Bf16> x, Weights w, DeviceRows<Out> y,
                       std::int64_t tokens) {
  constexpr std::int64_t kStep = kThreads * Weights::kPack;
  const std::int64_t first = std::int64_t{blockIdx.x} * kOutputs;
  const BlockRows<Weights> block = RowsOfBlock(w, first);
  std::int64_t column = std::int64_t{threadIdx.x} * Weights::kPack;
  Packed packs[kOutputs];
  LoadPacks(block, column, w.stride, packs);  // may precede the wait: no kernel writes weights
  WaitForEarlierKernels();

  float sums[kOutputs][kTokens] = {};
  for (; column < w.columns; column += kStep) {
    Packed next[kOutputs];
    LoadPacks(block, column + kStep, w.stride, next);
    typename Weights::Group groups[kOutputs];
#pragma unroll
    for (int n = 0; n < kOutputs; ++n) groups[n] = w.GroupAt(block.rows[n], column);
    AccumulatePack<Weights, kTokens>(packs, groups, x, tokens, column, w.columns, sums);
#pragma unroll
    for (int n = 0; n < kOutputs; ++n) packs[n] = next[n];
  }

  WriteBlockSums<kWarps>(sums, [&](int n, int t, float sum) {
    if (first + n >= w.rows || t >= tokens) return;
    y.Row(t)[first + n] = Rounded<Out>(w.Scaled(sum, first + n));
  });
}

template <class Out, class Weights>
void MultiplyRows(StreamView stream, const DeviceMatrix& x, const Weights& w,
                  const DeviceMatrix& y) {
  const LaunchShape shape{dim3(static_cast<unsigned>((w.rows + kOutputs - 1) / kOutputs)),
                          kThreads};
  const auto launch = [&](auto kernel) {
    Launch(stream, shape, "WideningGemm", kernel, RowsOf<const Bf16>(x), w, RowsOf<Out>(y), x.rows);
  };
  if (x.rows == 1) return launch(&WideningGemmKernel<Weights, Out, 1>);
  if (x.rows == 2) return launch(&WideningGemmKernel<Weights, Out, 2>);
  if (x.rows <= 4) return launch(&WideningGemmKernel<Weights, Out, 4>);
  launch(&WideningGemmKernel<Weights, Out, static_cast<int>(kWideningTokens)>);
}

template <class Weights>
void Multiply(StreamView stream, const DeviceMatrix& x, const Weights& w, const DeviceMatrix& y) {
  CHECK(x.columns == w.columns && y.columns == w.rows && y.rows == x.rows);
  CHECK(w.stride % Weights::kPack == 0);
  for (std::int64_t first = 0; first < x.rows; first += kWideningTokens) {
    const std::int64_t count = std::min(kWideningTokens, x.rows - first);
    if (y.dtype == DType::kFp32) {
      MultiplyRows<float>(stream, x.Rows(first, count), w, y.Rows(first, count));
    } else {
      MultiplyRows<Bf16>(stream, x.Rows(first, count), w, y.Rows(first, count));
    }
  }
}

template <class Weights, int kColumns>
__global__ void WidenKernel(Weights w, DeviceRows<Bf16> to) {
  WaitForEarlierKernels();
  const std::int64_t column =
      (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * std::int64_t{kColumns};
  if (column >= w.columns) return;
  for (std::int64_t n = blockIdx.y; n < w.rows; n += gridDim.y) {
    const typename Weights::Row row = w.RowAt(n);
    const typename Weights::Group group = w.GroupAt(row, column);
    float values[kColumns];
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      values[i] = w.Scaled(Weights::Weight(row.bytes, column + i, group), n);
    }
    StoreRounded<kColumns>(values, to.Row(n) + column);
  }
}

template <class Weights>
void WidenRows(StreamView stream, const Weights& w, const DeviceMatrix& to) {
  CHECK(to.rows == w.rows && to.columns == w.columns);
  CHECK(to.dtype == DType::kBf16);
  if (IsPacked(to)) {
    Launch(stream, RowGrid(w.rows, w.columns / kPackWidth<Bf16>), "Widen",
           &WidenKernel<Weights, kPackWidth<Bf16>>, w, RowsOf<Bf16>(to));
  } else {
    Launch(stream, RowGrid(w.rows, w.columns), "Widen", &WidenKernel<Weights, 1>, w,
           RowsOf<Bf16>(to));
  }
}

Int4Weights WeightsOf(const Int4Matrix& w) { return {w, w.groups()}; }

Fp8Weights WeightsOf(const ScaledMatrix& w) {
  CHECK(w.values.dtype == DType::kFp8 && w.scales != nullptr);
  return {.values = w.values.As<const std::uint8_t>(),
          .scales = w.scales,
          .rows = w.values.rows,
          .columns = w.values.columns,
          .stride = w.values.stride};
}

bool Takes(const DeviceMatrix& x, std::int64_t outputs, const DeviceMatrix& y) {
  const bool formats = x.dtype == DType::kBf16 && (y.dtype == x.dtype || y.dtype == DType::kFp32);
  return formats && x.rows >= 1 && x.rows <= kWideningTokensMax && IsPacked(x) && outputs >= 1;
}

}  // namespace

bool TakesWideningGemm(const DeviceMatrix& x, const Int4Matrix& w, const DeviceMatrix& y) {
  return Takes(x, w.rows, y);
}

bool TakesWideningGemm(const DeviceMatrix& x, const ScaledMatrix& w, const DeviceMatrix& y) {
  return Takes(x, w.values.rows, y);
}

void WideningGemm(StreamView stream, DeviceMatrix x, const Int4Matrix& w, DeviceMatrix y) {
  CHECK(TakesWideningGemm(x, w, y) && w.group % kInt4Pack == 0 && IsPacked(w.q));
  Multiply(stream, x, WeightsOf(w), y);
}

void WideningGemm(StreamView stream, DeviceMatrix x, const ScaledMatrix& w, DeviceMatrix y) {
  CHECK(TakesWideningGemm(x, w, y) && IsPacked(w.values.data));
  Multiply(stream, x, WeightsOf(w), y);
}

void Widen(StreamView stream, const Int4Matrix& w, DeviceMatrix to) {
  WidenRows(stream, WeightsOf(w), to);
}

void Widen(StreamView stream, const ScaledMatrix& w, DeviceMatrix to) {
  WidenRows(stream, WeightsOf(w), to);
}

}  // namespace twin::kernels::cuda
