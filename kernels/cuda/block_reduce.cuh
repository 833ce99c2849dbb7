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

}  // namespace twin::kernels::cuda
