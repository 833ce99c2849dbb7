// Begin and end of each kernel that this process runs on a device, from CUPTI; includes no CUDA
// header.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace twin::exec {

struct KernelRun {
  std::string name;           // demangled
  std::int64_t begin_ns = 0;  // on CUPTI's clock
  std::int64_t end_ns = 0;
};

// Records kernels from its construction on, which should come before any other work on a device.
// The process has at most one. Kernels get slower by about a microsecond each.
class KernelTrace {
 public:
  // Opens CUPTI at run time, from the folders that CUDA libraries are searched in. Throws
  // InputError (usage) if it is not found, or if this build has no code for it.
  KernelTrace();
  ~KernelTrace();
  KernelTrace(const KernelTrace&) = delete;
  KernelTrace& operator=(const KernelTrace&) = delete;

  // Returns the kernels since the last call, in the order of their beginnings. Waits for the
  // device. Throws kernels::cuda::DeviceError.
  std::vector<KernelRun> Take();
};

}  // namespace twin::exec
