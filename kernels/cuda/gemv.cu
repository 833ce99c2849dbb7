#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/gemv.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/vector_io.cuh"

namespace twin::kernels::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
// Outputs per block: each thread streams this many rows of w, one pack of each at a time, and
// prefetches the next packs. With five blocks per multiprocessor, 40 KB or more are in flight.
constexpr int kOutputs = 4;

template <class T>
using Packs = Pack<T, kPackWidth<T>>[kOutputs];

// Loads pack `column` of each of the block's rows of w; zeros after the end of a row.
template <class T>
__device__ __forceinline__ void LoadWeights(const T* const (&rows)[kOutputs], std::int64_t column,
                                            std::int64_t inputs, Packs<T>& packs) {
#pragma unroll
  for (int n = 0; n < kOutputs; ++n) {
    packs[n] = column < inputs ? Load<kPackWidth<T>>(rows[n] + column) : Pack<T, kPackWidth<T>>{};
  }
}

template <class T, int kTokens>
__device__ __forceinline__ void Accumulate(const Packs<T>& weights, DeviceRows<const T> x,
                                           std::int64_t column, float (&sums)[kOutputs][kTokens]) {
  constexpr int kWidth = kPackWidth<T>;
#pragma unroll
  for (int t = 0; t < kTokens; ++t) {
    float inputs[kWidth];
    LoadFloats<kWidth>(x.Row(t) + column, inputs);
#pragma unroll
    for (int n = 0; n < kOutputs; ++n) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        sums[n][t] = fmaf(inputs[i], ToFloat(weights[n].values[i]), sums[n][t]);
      }
    }
  }
}

// The warps of a block take the packs of the rows in turn; their sums are added in warp order.
template <class T, class Out, int kTokens>
__global__ void __launch_bounds__(kThreads, 5)
    SkinnyGemmKernel(DeviceRows<const T> x, DeviceRows<const T> w, DeviceRows<Out> y,
                     std::int64_t outputs, std::int64_t inputs) {
  constexpr int kWidth = kPackWidth<T>;
  constexpr std::int64_t kStep = std::int64_t{kThreads} * kWidth;
  const std::int64_t first = std::int64_t{blockIdx.x} * kOutputs;
  const T* rows[kOutputs];
#pragma unroll
  for (int n = 0; n < kOutputs; ++n) rows[n] = w.Row(min(first + n, outputs - 1));

  std::int64_t column = std::int64_t{threadIdx.x} * kWidth;
  Packs<T> weights;
  LoadWeights<T>(rows, column, inputs, weights);  // may precede the wait: no kernel writes weights
  WaitForEarlierKernels();

  float sums[kOutputs][kTokens] = {};
  while (column < inputs) {
    Packs<T> next;
    LoadWeights<T>(rows, column + kStep, inputs, next);
    Accumulate<T, kTokens>(weights, x, column, sums);
#pragma unroll
    for (int n = 0; n < kOutputs; ++n) weights[n] = next[n];
    column += kStep;
  }

  WriteBlockSums<kWarps>(sums, [&](int n, int t, float sum) {
    if (first + n < outputs) y.Row(t)[first + n] = Rounded<Out>(sum);
  });
}

template <class T, class Out>
void Multiply(StreamView stream, const DeviceMatrix& x, const DeviceMatrix& w,
              const DeviceMatrix& y) {
  const LaunchShape shape{dim3(static_cast<unsigned>((w.rows + kOutputs - 1) / kOutputs)),
                          kThreads};
  const auto launch = [&](auto kernel) {
    Launch(stream, shape, "SkinnyGemm", kernel, RowsOf<const T>(x), RowsOf<const T>(w),
           RowsOf<Out>(y), w.rows, w.columns);
  };
  switch (x.rows) {
    case 1:
      return launch(&SkinnyGemmKernel<T, Out, 1>);
    case 2:
      return launch(&SkinnyGemmKernel<T, Out, 2>);
    case 3:
      return launch(&SkinnyGemmKernel<T, Out, 3>);
    default:
      return launch(&SkinnyGemmKernel<T, Out, 4>);
  }
}

}  // namespace

bool TakesSkinnyGemm(const DeviceMatrix& x, const DeviceMatrix& w, const DeviceMatrix& y) {
  const bool formats = x.dtype == w.dtype && ByteSize(x.dtype) == 2 &&
                       (y.dtype == x.dtype || y.dtype == DType::kFp32);
  return formats && x.rows >= 1 && x.rows <= kSkinnyRows && IsPacked(x) && IsPacked(w) &&
         w.rows >= 1;
}

void SkinnyGemm(StreamView stream, DeviceMatrix x, DeviceMatrix w, DeviceMatrix y) {
  CHECK(TakesSkinnyGemm(x, w, y));
  CHECK(x.columns == w.columns && y.columns == w.rows && y.rows == x.rows);
  WithElement16(x.dtype, [&]<class T>(T) {
    if (y.dtype == DType::kFp32) {
      Multiply<T, float>(stream, x, w, y);
    } else {
      Multiply<T, T>(stream, x, w, y);
    }
  });
}

}  // namespace twin::kernels::cuda
