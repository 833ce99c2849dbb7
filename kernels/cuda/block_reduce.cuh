// Sums and maxima over the threads of a warp or block. The order of the sums is fixed.
#pragma once

#include <cmath>

#include "kernels/cuda/block_memory.cuh"
#include "kernels/cuda/launch.cuh"

namespace twin::kernels::cuda {

// Returns the sum in all lanes. REQUIRES: all lanes of the warp call it.
__device__ __forceinline__ float WarpSum(float value) {
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) value += __shfl_xor_sync(~0U, value, lanes);
  return value;
}

struct BlockReduceMemory {
  float of_warp[kWarp];
};

// As WarpSum, for the maximum. NaN is ignored if there is any number.
__device__ __forceinline__ float WarpMax(float value) {
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    value = fmaxf(value, __shfl_xor_sync(~0U, value, lanes));
  }
  return value;
}

// Extends `reduce`, a reduction over a warp, to the block, and returns the result in all threads.
// `neutral` is the neutral element of the reduction. REQUIRES: all threads of the block call it;
// the block consists of whole warps. May be called again without a barrier in between.
template <class Reduce>
__device__ __forceinline__ float BlockReduced(float value, float neutral, Reduce reduce) {
  auto& memory = BlockShared<BlockReduceMemory>();
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned warps = blockDim.x / kWarp;
  value = reduce(value);
  if (warps == 1) return value;
  if (lane == 0) memory.of_warp[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = reduce(lane < warps ? memory.of_warp[lane] : neutral);
  __syncthreads();
  return value;
}

__device__ __forceinline__ float BlockSum(float value) {
  return BlockReduced(value, 0, [](float of_lane) { return WarpSum(of_lane); });
}

// REQUIRES: values are not negative.
__device__ __forceinline__ float BlockMax(float value) {
  return BlockReduced(value, 0, [](float of_lane) { return WarpMax(of_lane); });
}

template <int kWarps, int kRows, int kColumns>
struct WarpSums {
  float of_warp[kWarps][kRows][kColumns];
};

// Adds each element of `sums` over the threads of the block, the warps in their order, and calls
// write(row, column, sum) for it in one thread. REQUIRES: all threads of the block call it; the
// block has kWarps warps, and at least as many threads as there are elements.
template <int kWarps, int kRows, int kColumns, class Write>
__device__ __forceinline__ void WriteBlockSums(const float (&sums)[kRows][kColumns], Write write) {
  auto& partials = BlockShared<WarpSums<kWarps, kRows, kColumns>>();
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
#pragma unroll
    for (int column = 0; column < kColumns; ++column) {
      const float sum = WarpSum(sums[row][column]);
      if (threadIdx.x % kWarp == 0) partials.of_warp[threadIdx.x / kWarp][row][column] = sum;
    }
  }
  __syncthreads();
  if (threadIdx.x >= kRows * kColumns) return;
  const int row = static_cast<int>(threadIdx.x) / kColumns;
  const int column = static_cast<int>(threadIdx.x) % kColumns;
  float sum = 0;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) sum += partials.of_warp[warp][row][column];
  write(row, column, sum);
}

}  // namespace twin::kernels::cuda
