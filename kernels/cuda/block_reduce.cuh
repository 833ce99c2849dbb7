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

// In all threads of the block, which must all come and be whole warps. Its memory may be used
// again at once.
__device__ __forceinline__ float BlockSum(float value) {
  auto& memory = BlockShared<BlockReduceMemory>();
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned warps = blockDim.x / kWarp;
  value = WarpSum(value);
  if (warps == 1) return value;
  if (lane == 0) memory.of_warp[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = WarpSum(lane < warps ? memory.of_warp[lane] : 0);
  __syncthreads();
  return value;
}

// As WarpSum; of NaN and a number, the number.
__device__ __forceinline__ float WarpMax(float value) {
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    value = fmaxf(value, __shfl_xor_sync(~0U, value, lanes));
  }
  return value;
}

// As BlockSum; of numbers that are not negative.
__device__ __forceinline__ float BlockMax(float value) {
  auto& memory = BlockShared<BlockReduceMemory>();
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned warps = blockDim.x / kWarp;
  value = WarpMax(value);
  if (warps == 1) return value;
  if (lane == 0) memory.of_warp[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = WarpMax(lane < warps ? memory.of_warp[lane] : 0);
  __syncthreads();
  return value;
}

}  // namespace twin::kernels::cuda
