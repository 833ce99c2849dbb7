#include "kernels/cuda/device_memory.h"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <string>

#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {
namespace {

[[noreturn]] void Refuse(const char* what, std::int64_t bytes, cudaError_t error) {
  // The error is reported here; clear it so that a later check does not report it again.
  cudaGetLastError();
  char size[32];
  std::snprintf(size, sizeof size, "%.2f GB", static_cast<double>(bytes) * 1e-9);
  throw DeviceError(std::string(what) + " of " + size, cudaGetErrorString(error),
                    error == cudaErrorMemoryAllocation);
}

cudaError_t Allocate(MemoryPlace place, void** memory, std::size_t bytes) {
  return place == MemoryPlace::kDevice ? cudaMalloc(memory, bytes)
                                       : cudaHostAlloc(memory, bytes, cudaHostAllocDefault);
}

}  // namespace

template <MemoryPlace kPlace>
void OwnedMemory<kPlace>::Take(const char* what) {
  if (bytes_ == 0) return;
  void* memory = nullptr;
  const cudaError_t error = Allocate(kPlace, &memory, size());
  if (error != cudaSuccess) Refuse(what, bytes_, error);
  data_ = static_cast<std::byte*>(memory);
}

// Does not pass null to the runtime: on a thread without a current device, the runtime would create
// a context on the first device.
template <MemoryPlace kPlace>
OwnedMemory<kPlace>::~OwnedMemory() {
  if (data_ == nullptr || DeviceHangs()) return;  // giving memory back waits for the device
  if (kPlace == MemoryPlace::kDevice) {
    cudaFree(data_);
  } else {
    cudaFreeHost(data_);
  }
}

template class OwnedMemory<MemoryPlace::kDevice>;
template class OwnedMemory<MemoryPlace::kHost>;

DeviceMemory CurrentDeviceMemory() {
  std::size_t free = 0;
  std::size_t total = 0;
  CheckCuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {static_cast<std::int64_t>(free), static_cast<std::int64_t>(total)};
}

}  // namespace twin::kernels::cuda
