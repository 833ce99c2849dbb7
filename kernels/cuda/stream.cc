#include "kernels/cuda/stream.h"

#include <cuda_runtime_api.h>

namespace twin::kernels::cuda {

void CheckCuda(int code, const char* what) {
  if (code == cudaSuccess) [[likely]] {
    return;
  }
  const auto error = static_cast<cudaError_t>(code);
  cudaGetLastError();  // clears the error for later checks
  throw DeviceError(what, cudaGetErrorString(error), error == cudaErrorMemoryAllocation);
}

}  // namespace twin::kernels::cuda
