#include <algorithm>
#include <thread>

#include "kernels/cpu_features.h"

namespace twin::kernels {

// Processors other than x86-64: none of the instruction sets that kernels are written for.
CpuFeatures DetectCpu() {
  CpuFeatures cpu;
  cpu.usable_cores = std::max(1, static_cast<std::int32_t>(std::thread::hardware_concurrency()));
  return cpu;
}

}  // namespace twin::kernels
