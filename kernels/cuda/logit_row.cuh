// The logits of a row over the threads of a block, and reductions of their ranks.
#pragma once

#include "kernels/cuda/block_memory.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/vector_io.cuh"
#include "kernels/gumbel.h"

namespace twin::kernels::cuda {

constexpr int kRowThreadsMax = 1024;
constexpr int kRowThreadsMin = 128;
constexpr int kLogitsOfThread = 32;  // per thread, before more threads are used
constexpr int kRowWarpsMax = kRowThreadsMax / kWarp;
constexpr int kReducedMax = 7;  // values that BlockReduce reduces at once

using Number = unsigned long long;  // the type of the 64-bit atomics and shuffles

// A candidate's place in the ranking: larger values first, and lower tokens first among equal
// values. Never 0.
__device__ __forceinline__ Number RankOf(std::uint32_t ordered, std::uint32_t token) {
  return (static_cast<Number>(ordered) << 32) | ~token;
}
__device__ __forceinline__ std::uint32_t OrderedOf(Number rank) {
  return static_cast<std::uint32_t>(rank >> 32);
}
__device__ __forceinline__ std::int32_t TokenOf(Number rank) {
  return static_cast<std::int32_t>(~static_cast<std::uint32_t>(rank));
}

struct ReduceMemory {
  Number of_warp[kReducedMax][kRowWarpsMax];
  Number result[kReducedMax];
};

// Reduces each of the values over the block and returns the results in all threads. The operation
// must be commutative and have 0 as its neutral element. REQUIRES: kCount <= kReducedMax; all
// threads of the block call it; the block consists of whole warps.
template <int kCount, class Operation>
__device__ __forceinline__ void BlockReduce(Number (&values)[kCount], const Operation& operation) {
  auto& memory = BlockShared<ReduceMemory>();
  const auto over_warp = [&](Number value) {
#pragma unroll
    for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
      value = operation(value, __shfl_xor_sync(~0U, value, lanes));
    }
    return value;
  };
  const unsigned warp = threadIdx.x / kWarp;
  const unsigned lane = threadIdx.x % kWarp;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const Number value = over_warp(values[i]);
    if (lane == 0) memory.of_warp[i][warp] = value;
  }
  __syncthreads();
  const unsigned warps = blockDim.x / kWarp;
  for (unsigned i = warp; i < kCount; i += warps) {
    const Number value = over_warp(lane < warps ? memory.of_warp[i][lane] : 0);
    if (lane == 0) memory.result[i] = value;
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] = memory.result[i];
}

__device__ __forceinline__ Number BlockMax(Number value) {
  Number values[1] = {value};
  BlockReduce(values, [](Number a, Number b) { return a > b ? a : b; });
  return values[0];
}

// The logit of a rank; NaN if the logit was NaN.
__device__ __forceinline__ float LogitOf(Number rank) {
  constexpr std::uint32_t kNan = 0x7FC00000U;
  return OrderedOf(rank) == 0 ? FloatOfBits(kNan) : FloatOfOrdered(OrderedOf(rank));
}

constexpr int kPacksAhead = 4;  // that ForEachAhead has in flight

// The logits of a row, distributed over the threads of a block in packs of kWidth.
template <int kWidth>
struct LogitRow {
  const float* logits = nullptr;
  int size = 0;

  // Calls body(logit, token) for each of the thread's logits.
  template <class Body>
  __device__ __forceinline__ void ForEach(const Body& body) const {
    for (int first = static_cast<int>(threadIdx.x) * kWidth; first < size;
         first += static_cast<int>(blockDim.x) * kWidth) {
      float values[kWidth];
      LoadFloats<kWidth>(logits + first, values);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) body(values[i], static_cast<std::uint32_t>(first + i));
    }
  }

  // As ForEach, with several packs in flight at a time: for bodies that need few registers.
  template <class Body>
  __device__ __forceinline__ void ForEachAhead(const Body& body) const {
    const int step = static_cast<int>(blockDim.x) * kWidth;
    int first = static_cast<int>(threadIdx.x) * kWidth;
    for (; first + (kPacksAhead - 1) * step < size; first += kPacksAhead * step) {
      float values[kPacksAhead][kWidth];
#pragma unroll
      for (int pack = 0; pack < kPacksAhead; ++pack) {
        LoadFloats<kWidth>(logits + first + pack * step, values[pack]);
      }
#pragma unroll
      for (int pack = 0; pack < kPacksAhead; ++pack) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
          body(values[pack][i], static_cast<std::uint32_t>(first + pack * step + i));
        }
      }
    }
    for (; first < size; first += step) {
      float values[kWidth];
      LoadFloats<kWidth>(logits + first, values);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) body(values[i], static_cast<std::uint32_t>(first + i));
    }
  }
};

// Threads of a block that takes one row.
inline int ThreadsOfRow(std::int64_t columns) {
  const auto wanted = static_cast<int>(columns / kLogitsOfThread / kWarp * kWarp);
  return std::clamp(wanted, kRowThreadsMin, kRowThreadsMax);
}

}  // namespace twin::kernels::cuda
