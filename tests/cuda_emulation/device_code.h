// What nvcc gives to device code, for the C++ compiler: the emulation puts it in front of every
// kernel source (-include).
#pragma once

#include <cuda_runtime_api.h>
// The headers declare these variables; ours are other ones.
#define threadIdx twin_unused_threadIdx
#define blockIdx twin_unused_blockIdx
#define blockDim twin_unused_blockDim
#define gridDim twin_unused_gridDim
#include <cuda_runtime.h>
#include <device_launch_parameters.h>
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim
#include <cuda_bf16.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tests/cuda_emulation/block.h"

namespace twin::cuda_emulation {

cudaError_t Launch(const cudaLaunchConfig_t& config, const void* function,
                   std::function<void()> kernel);

// Arguments are taken by value at the launch, as the parameters' types.
template <class... Parameters, class... Arguments>
cudaError_t LaunchKernel(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                         Arguments&&... arguments) {
  return Launch(
      *config, reinterpret_cast<const void*>(kernel),
      [kernel, values = std::tuple<Parameters...>(std::forward<Arguments>(arguments)...)] {
        std::apply(kernel, values);
      });
}

template <class T>
constexpr std::uint64_t ToBits(T value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

template <class T>
T FromBits(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

inline unsigned Lane() { return CurrentPlace().thread->number % kWarpSize; }

// The value of lane `source` within the caller's section of `width` lanes; its own if there is
// none.
template <class T>
T Shuffled(unsigned mask, T value, unsigned source, bool exists, CodePlace place) {
  const auto& values = Block::Current().Exchange(mask, ToBits(value), place);
  const bool taken = exists && source < kWarpSize && ((mask >> source) & 1U) != 0;
  return taken ? FromBits<T>(values[source]) : value;
}

// One coordinate of the calling thread's place.
template <auto kOf>
struct Coordinate {
  operator unsigned() const { return kOf(); }  // NOLINT(google-explicit-constructor)
};

template <auto kTriple>
struct Coordinates {
  Coordinate<[] { return kTriple().x; }> x;
  Coordinate<[] { return kTriple().y; }> y;
  Coordinate<[] { return kTriple().z; }> z;
};

}  // namespace twin::cuda_emulation

constexpr ::twin::cuda_emulation::Coordinates<[] {
  return ::twin::cuda_emulation::CurrentPlace().thread->index;
}>
    threadIdx;
constexpr ::twin::cuda_emulation::Coordinates<[] {
  return ::twin::cuda_emulation::CurrentPlace().block_index;
}>
    blockIdx;
constexpr ::twin::cuda_emulation::Coordinates<[] {
  return ::twin::cuda_emulation::CurrentPlace().grid->threads;
}>
    blockDim;
constexpr ::twin::cuda_emulation::Coordinates<[] {
  return ::twin::cuda_emulation::CurrentPlace().grid->blocks;
}>
    gridDim;

#define cudaLaunchKernelEx ::twin::cuda_emulation::LaunchKernel
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __forceinline__
#define __forceinline__ inline
#define TWIN_CODE_PLACE \
  ::twin::cuda_emulation::CodePlace { file, line }
#define TWIN_CALLED_FROM const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(TWIN_CALLED_FROM) {
  ::twin::cuda_emulation::Block::Current().Barrier(TWIN_CODE_PLACE);
}

inline void __syncwarp(unsigned mask = ~0U, TWIN_CALLED_FROM) {
  ::twin::cuda_emulation::Block::Current().Exchange(mask, 0, TWIN_CODE_PLACE);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, TWIN_CALLED_FROM) {
  const unsigned lane = ::twin::cuda_emulation::Lane();
  const auto size = static_cast<unsigned>(width);
  const unsigned from = lane / size * size + static_cast<unsigned>(source) % size;
  return ::twin::cuda_emulation::Shuffled(mask, value, from, true, TWIN_CODE_PLACE);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, TWIN_CALLED_FROM) {
  const unsigned lane = ::twin::cuda_emulation::Lane();
  const auto size = static_cast<unsigned>(width);
  const unsigned from = lane ^ static_cast<unsigned>(lanes);
  return ::twin::cuda_emulation::Shuffled(mask, value, from, from / size <= lane / size,
                                          TWIN_CODE_PLACE);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned lanes, int width = 32, TWIN_CALLED_FROM) {
  const unsigned lane = ::twin::cuda_emulation::Lane();
  const auto size = static_cast<unsigned>(width);
  return ::twin::cuda_emulation::Shuffled(mask, value, lane + lanes, lane % size + lanes < size,
                                          TWIN_CODE_PLACE);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned lanes, int width = 32, TWIN_CALLED_FROM) {
  const unsigned lane = ::twin::cuda_emulation::Lane();
  const auto size = static_cast<unsigned>(width);
  return ::twin::cuda_emulation::Shuffled(mask, value, lane - lanes, lane % size >= lanes,
                                          TWIN_CODE_PLACE);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, TWIN_CALLED_FROM) {
  const auto& values = ::twin::cuda_emulation::Block::Current().Exchange(
      mask, predicate != 0 ? 1 : 0, TWIN_CODE_PLACE);
  unsigned ballot = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (((mask >> lane) & 1U) != 0 && values[lane] != 0) ballot |= 1U << lane;
  }
  return ballot;
}

inline int __any_sync(unsigned mask, int predicate, TWIN_CALLED_FROM) {
  return __ballot_sync(mask, predicate, file, line) != 0 ? 1 : 0;
}

inline int __all_sync(unsigned mask, int predicate, TWIN_CALLED_FROM) {
  return __ballot_sync(mask, predicate, file, line) == mask ? 1 : 0;
}

template <class T, class V>
T atomicAdd(T* place, V value) {
  return std::atomic_ref<T>(*place).fetch_add(static_cast<T>(value));
}

inline int __popc(unsigned bits) { return std::popcount(bits); }
inline void cudaGridDependencySynchronize() {
  ::twin::cuda_emulation::Block::Current().AwaitEarlierKernels();
}
inline void cudaTriggerProgrammaticLaunchCompletion() {}
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }

using std::max;
using std::min;

#undef TWIN_CODE_PLACE
