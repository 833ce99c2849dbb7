#include "exec/device_probe.h"

#include <cuda_runtime_api.h>

namespace twin::exec {

CudaStatus ProbeCuda() {
  CudaStatus status;
  cudaDriverGetVersion(&status.driver_version);
  cudaRuntimeGetVersion(&status.runtime_version);
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    // The runtime reports a missing driver as an outdated one.
    status.reason =
        status.driver_version == 0 ? "no CUDA driver is installed" : cudaGetErrorString(error);
    return status;
  }
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
    status.devices.push_back({.name = properties.name,
                              .compute_major = properties.major,
                              .compute_minor = properties.minor,
                              .multiprocessors = properties.multiProcessorCount,
                              .total_bytes = static_cast<std::int64_t>(properties.totalGlobalMem)});
  }
  if (status.devices.empty()) status.reason = "no CUDA device is visible";
  return status;
}

}  // namespace twin::exec
