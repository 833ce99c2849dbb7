// Reports CUDA libraries, attention kernels and device limits; includes no CUDA header.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/device_probe.h"

namespace twin::exec {

// A CUDA library, searched for in the folders of toolkits and Python packages.
struct CudaLibraryStatus {
  std::string name;     // such as "cuBLASLt"
  std::string use;      // the purpose that it serves
  std::string path;     // of the file; empty if not found
  LibraryStatus found;  // version, or why it cannot be used
};

// The status of cuBLASLt and NCCL; empty in a build without CUDA. Opens the libraries, which stay
// open.
std::vector<CudaLibraryStatus> ProbeCudaLibraries();

// The attention kernels of this build, such as "fa2 (FlashInfer)"; empty without CUDA.
std::vector<std::string> CudaAttentionKernels();

// Measured peak rates of a device (medians).
struct CudaCeilings {
  std::string device;
  double gemm_flops_per_s = 0;  // bf16 product of 8192 x 8192 x 8192, by cuBLASLt
  double gemm_spread = 0;       // (p90 - p10) / median
  double copy_bytes_per_s = 0;  // within the device's memory, read and written bytes together
  double copy_spread = 0;
  std::int64_t copy_bytes = 0;  // size of the copied array
};

// Needs 1.5 GiB of device memory, or a quarter of the free memory, and takes about a second.
// Throws InputError if the device does not exist, kernels::cuda::DeviceError.
CudaCeilings MeasureCudaCeilings(std::int32_t ordinal);

}  // namespace twin::exec
