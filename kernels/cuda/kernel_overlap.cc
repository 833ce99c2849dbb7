#include "kernels/cuda/kernel_overlap.h"

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <string_view>

#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {
namespace {

constexpr std::size_t kDevicesMax = 64;
constexpr int kHopper = 9;

thread_local int apart = 0;

bool TurnedOff() {
  const char* const value = std::getenv("TWIN_KERNEL_OVERLAP");
  return value != nullptr && std::string_view(value) == "0";
}

bool Asked(int device) {
  int major = 0;
  CheckCuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
            "compute capability");
  return major >= kHopper;
}

}  // namespace

KernelsApart::KernelsApart() { ++apart; }
KernelsApart::~KernelsApart() { --apart; }

bool KernelsOverlap() {
  static const bool off = TurnedOff();
  if (apart > 0 || off) return false;
  static std::array<std::atomic<int>, kDevicesMax> known{};  // 0: unknown, 1: no, 2: yes
  int device = 0;
  CheckCuda(cudaGetDevice(&device), "current device");
  const auto index = static_cast<std::size_t>(device);
  if (index >= kDevicesMax) return Asked(device);
  int answer = known[index].load(std::memory_order_relaxed);
  if (answer == 0) {
    answer = Asked(device) ? 2 : 1;
    known[index].store(answer, std::memory_order_relaxed);
  }
  return answer == 2;
}

}  // namespace twin::kernels::cuda
