// FlashInfer's planners of work. They fill a page-locked buffer and copy it to the device; here the
// copy is left out, because a plan travels with the other inputs of its step, in one copy
// (docs/decisions/0017-plans-travel-with-the-step.md). To be included in place of
// flashinfer/attention/scheduler.cuh.
#pragma once

#ifdef FLASHINFER_ATTENTION_SCHEDULER_CUH_
#error "planner.cuh must be the first to include flashinfer/attention/scheduler.cuh"
#endif

// All that scheduler.cuh includes, so that the name below is replaced in that header alone.
#include <cuda_runtime_api.h>
#include <driver_types.h>
#include <flashinfer/allocator.h>
#include <flashinfer/attention/heap.h>
#include <flashinfer/exception.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <vector>

#include <flashinfer/pos_enc.cuh>
#include <flashinfer/utils.cuh>

namespace twin::kernels::cuda {

// The planners use their stream for the copy alone.
inline constexpr cudaStream_t kNoStream = nullptr;

inline cudaError_t LeaveOutCopy(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/,
                                cudaMemcpyKind /*kind*/, cudaStream_t /*stream*/) {
  return cudaSuccess;
}

}  // namespace twin::kernels::cuda

#define cudaMemcpyAsync ::twin::kernels::cuda::LeaveOutCopy
#include <flashinfer/attention/scheduler.cuh>
#undef cudaMemcpyAsync
