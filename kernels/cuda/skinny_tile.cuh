// Products of a few rows with streamed weights on CUDA cores, shared by the kernels of one matrix
// and of the experts of a mixture.
#pragma once

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/vector_io.cuh"

namespace twin::kernels::cuda {

constexpr int kSkinnyWarps = 4;
constexpr int kSkinnyThreads = kSkinnyWarps * kWarp;
// Outputs per block: each thread streams this many rows of w, one pack of each at a time, and
// prefetches the next packs. With five blocks per multiprocessor, 40 KB or more are in flight.
constexpr int kSkinnyOutputs = 4;

template <class T, int kWidth, int kOutputs>
using SkinnyPacks = Pack<T, kWidth>[kOutputs];

// Loads pack `column` of each of the block's rows of w; zeros after the end of a row.
template <int kWidth, class T, int kOutputs>
__device__ __forceinline__ void LoadWeights(const T* const (&rows)[kOutputs], std::int64_t column,
                                            std::int64_t inputs,
                                            SkinnyPacks<T, kWidth, kOutputs>& packs) {
#pragma unroll
  for (int n = 0; n < kOutputs; ++n) {
    packs[n] = column < inputs ? Load<kWidth>(rows[n] + column) : Pack<T, kWidth>{};
  }
}

template <int kWidth, class T, int kTokens, int kOutputs, class Rows>
__device__ __forceinline__ void AccumulatePacks(const Pack<T, kWidth> (&weights)[kOutputs],
                                                const Rows& x, std::int64_t column,
                                                float (&sums)[kOutputs][kTokens]) {
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

// The calling thread's part of the products of kTokens rows with the rows of w. begin() returns the
// rows, x.Row(t); it is called when the first weights are on their way. The warps of a block take
// the packs of the rows in turn: WriteBlockSums() adds their parts in warp order.
template <int kWidth, class T, int kTokens, int kOutputs, class Begin>
__device__ __forceinline__ void AccumulateSkinny(const T* const (&w)[kOutputs], std::int64_t inputs,
                                                 Begin begin, float (&sums)[kOutputs][kTokens]) {
  constexpr std::int64_t kStep = std::int64_t{kSkinnyThreads} * kWidth;
  std::int64_t column = std::int64_t{threadIdx.x} * kWidth;
  SkinnyPacks<T, kWidth, kOutputs> weights;
  LoadWeights<kWidth>(w, column, inputs, weights);
  const auto x = begin();
  while (column < inputs) {
    SkinnyPacks<T, kWidth, kOutputs> next;
    LoadWeights<kWidth>(w, column + kStep, inputs, next);
    AccumulatePacks<kWidth>(weights, x, column, sums);
#pragma unroll
    for (int n = 0; n < kOutputs; ++n) weights[n] = next[n];
    column += kStep;
  }
}

}  // namespace twin::kernels::cuda
