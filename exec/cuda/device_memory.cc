#include "exec/cuda/device_memory.h"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <string>

#include "kernels/cuda/stream.h"

namespace twin::exec::cuda {
namespace {

[[noreturn]] void Refuse(const char* what, std::int64_t bytes, cudaError_t error) {
  // The error is told here; a later check must not find it again.
  cudaGetLastError();
  char size[32];
  std::snprintf(size, sizeof size, "%.2f GB", static_cast<double>(bytes) * 1e-9);
  throw kernels::cuda::DeviceError(std::string(what) + " of " + size, cudaGetErrorString(error),
                                   error == cudaErrorMemoryAllocation);
}

}  // namespace

DeviceBuffer::DeviceBuffer(std::int64_t bytes, const char* what) : bytes_(bytes) {
  if (bytes == 0) return;
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, static_cast<std::size_t>(bytes));
  if (error != cudaSuccess) Refuse(what, bytes, error);
  data_ = static_cast<std::byte*>(memory);
}

// Null is not given to the runtime, which would make a context on the first device for a thread
// that has chosen none.
DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) cudaFree(data_);
}

PinnedBuffer::PinnedBuffer(std::int64_t bytes, const char* what) : bytes_(bytes) {
  if (bytes == 0) return;
  void* memory = nullptr;
  const cudaError_t error =
      cudaHostAlloc(&memory, static_cast<std::size_t>(bytes), cudaHostAllocDefault);
  if (error != cudaSuccess) Refuse(what, bytes, error);
  data_ = static_cast<std::byte*>(memory);
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ != nullptr) cudaFreeHost(data_);
}

DeviceMemory CurrentDeviceMemory() {
  std::size_t free = 0;
  std::size_t total = 0;
  kernels::cuda::CheckCuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {static_cast<std::int64_t>(free), static_cast<std::int64_t>(total)};
}

}  // namespace twin::exec::cuda
