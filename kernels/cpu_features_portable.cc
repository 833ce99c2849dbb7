#include <algorithm>
#include <thread>

#include "kernels/cpu_features.h"

namespace twin::kernels {

// For processors other than x86-64: kernels use no instruction sets of theirs.
CpuFeatures DetectCpu() {
  CpuFeatures cpu;
  cpu.usable_cores = std::max(1, static_cast<std::int32_t>(std::thread::hardware_concurrency()));
  return cpu;
}

}  // namespace twin::kernels
