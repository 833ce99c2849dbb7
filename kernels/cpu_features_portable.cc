#include <algorithm>
#include <thread>

#include "kernels/cpu_features.h"

namespace twin::kernels {

// For processors other than x86-64, whose instruction sets no kernel uses.
CpuFeatures DetectCpu() {
  CpuFeatures cpu;
  cpu.usable_cores = std::max(1, static_cast<std::int32_t>(std::thread::hardware_concurrency()));
  return cpu;
}

}  // namespace twin::kernels
