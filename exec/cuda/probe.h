// What the CUDA part of this build finds on a machine, for callers that know nothing of CUDA.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/device_probe.h"

namespace twin::exec {

// A library of the CUDA family, looked for where toolkits and Python packages put them.
struct CudaLibraryStatus {
  std::string name;     // as "cuBLASLt"
  std::string use;      // what it is needed for
  std::string path;     // of the file; empty if there is none
  LibraryStatus found;  // version, or why it cannot be used
};

// cuBLASLt, NCCL and cuDNN. Empty in a build without CUDA. Cost: opens them; they stay open.
std::vector<CudaLibraryStatus> ProbeCudaLibraries();

// The attention kernels of this build, as "fa2 (FlashInfer)"; empty without CUDA.
std::vector<std::string> CudaAttentionKernels();

// What a device can do at most, measured: medians.
struct CudaCeilings {
  std::string device;
  double gemm_flops_per_s = 0;  // bf16 product of 8192 x 8192 x 8192, by cuBLASLt
  double gemm_spread = 0;       // (p90 - p10) / median
  double copy_bytes_per_s = 0;  // within the device's memory, read and written bytes together
  double copy_spread = 0;
  std::int64_t copy_bytes = 0;  // of the array copied
};

// Takes 1.5 GiB of the device, or a quarter of what is free, and about a second.
// Throws InputError where there is no such device, kernels::cuda::DeviceError.
CudaCeilings MeasureCudaCeilings(std::int32_t device);

}  // namespace twin::exec
