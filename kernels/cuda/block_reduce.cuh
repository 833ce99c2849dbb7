// Sums over the threads of a warp and of a block, in one fixed order; maxima.
#pragma once

#include <cmath>

#include "kernels/cuda/block_memory.cuh"
#include "kernels/cuda/launch.cuh"

namespace twin::kernels::cuda {

// In all lanes of the warp; all of them must come.
__device__ __forceinline__ float WarpSum(float value) {
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) value += __shfl_xor_sync(~0U, value, lanes);
  return value;
}

struct BlockReduceMemory {
  float of_warp[kWarp];
};

// As WarpSum; of NaN and a number, the number.
__device__ __forceinline__ float WarpMax(float value) {
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    value = fmaxf(value, __shfl_xor_sync(~0U, value, lanes));
  }
  return value;
}

// What `reduce`, of a warp's values, makes of the block's, in all threads of the block, which must
// all come and be whole warps; `neutral` changes nothing. Its memory may be used again at once.
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

// Of numbers that are not negative.
__device__ __forceinline__ float BlockMax(float value) {
  return BlockReduced(value, 0, [](float of_lane) { return WarpMax(of_lane); });
}

}  // namespace twin::kernels::cuda
