// Kernel launches with programmatic dependent launch. Every kernel of the project is launched with
// Launch(). All of its threads call WaitForEarlierKernels() before they read what other kernels
// write, or write what other kernels read.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/kernel_overlap.h"
#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {

constexpr int kWarp = 32;
constexpr std::int64_t kGridRowsMax = 65535;  // limit of blocks in y and z

struct LaunchShape {
  dim3 blocks;
  int threads = 0;
  std::size_t shared_bytes = 0;
};

// Enqueues `kernel` on the stream. If KernelsOverlap(), its blocks may start while the last blocks
// of the previous kernel still run. `what` names the kernel in error messages. Throws DeviceError.
template <class... Parameters, class... Arguments>
void Launch(StreamView stream, const LaunchShape& shape, const char* what,
            void (*kernel)(Parameters...), const Arguments&... arguments) {
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = shape.blocks;
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream.get();
  config.attrs = &overlap;
  config.numAttrs = KernelsOverlap() ? 1 : 0;
  CheckCuda(cudaLaunchKernelEx(&config, kernel, arguments...), what);
}

// Waits until the earlier kernels of the stream have finished and their writes are visible; then
// allows the next kernel to start. Does nothing below compute capability 9.0.
__device__ __forceinline__ void WaitForEarlierKernels() {
#if !defined(__CUDACC__) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900)
  // Also on the emulated device, which starts kernels early as a real one does.
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// Prefetches `values` into the L2 cache; the threads of the block divide the work. Call it before
// WaitForEarlierKernels(), so that the reads overlap with the wait. REQUIRES: no kernel writes
// `values`.
template <class T>
__device__ __forceinline__ void FetchToCache(const T* values, std::int64_t count) {
#if defined(__CUDA_ARCH__)
  if (values == nullptr) return;
  constexpr std::int64_t kSector = 32 / static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t i = threadIdx.x * kSector; i < count; i += blockDim.x * kSector) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(values + i));
  }
#else
  static_cast<void>(values), static_cast<void>(count);
#endif
}

// A grid over rows (y) and packs of columns (x). Each thread takes one pack of the rows blockIdx.y,
// blockIdx.y + gridDim.y and so on.
inline LaunchShape RowGrid(std::int64_t rows, std::int64_t packs, int threads_max = 256) {
  const std::int64_t rounded = (packs + kWarp - 1) / kWarp * kWarp;
  const int threads = static_cast<int>(std::min<std::int64_t>(rounded, threads_max));
  const std::int64_t across = (packs + threads - 1) / threads;
  return {dim3(static_cast<unsigned>(across), static_cast<unsigned>(std::min(rows, kGridRowsMax))),
          threads};
}

}  // namespace twin::kernels::cuda
