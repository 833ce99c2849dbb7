#include "kernels/cuda/stream.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace twin::kernels::cuda {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<std::chrono::milliseconds> patience{kDevicePatience};
std::atomic<bool> hangs = false;

// Registered when a device hangs: the first of the functions that exit() calls.
void EndWithoutCleanUp(int status, void*) {
  if (!hangs) return;
  std::fflush(nullptr);
  std::_Exit(status);
}

}  // namespace

void CheckCuda(int code, const char* what) {
  if (code == cudaSuccess) [[likely]] {
    return;
  }
  const auto error = static_cast<cudaError_t>(code);
  cudaGetLastError();  // clears the error for later checks
  throw DeviceError(what, cudaGetErrorString(error), error == cudaErrorMemoryAllocation);
}

HungDevice::HungDevice(const std::string& what)
    : DeviceError(what, fmt::format("not done within {:g} s; the device hangs",
                                    std::chrono::duration<double>(patience.load()).count())) {}

bool DeviceHangs() { return hangs; }

void SetDevicePatience(std::chrono::milliseconds limit) {
  patience = limit;
  hangs = false;
}

void AwaitDevice(const char* what, const std::function<bool()>& done) {
  const Clock::time_point begin = Clock::now();
  while (!done()) {
    if (!hangs && Clock::now() - begin <= patience.load()) continue;
    if (!hangs.exchange(true)) on_exit(&EndWithoutCleanUp, nullptr);
    throw HungDevice(what);
  }
}

void AwaitStream(StreamView stream, const char* what) {
  AwaitDevice(what, [&] {
    const cudaError_t status = cudaStreamQuery(stream.get());
    if (status == cudaErrorNotReady) {
      cudaGetLastError();  // not an error here: clear it for later checks
      return false;
    }
    CheckCuda(status, what);
    return true;
  });
}

void AwaitStreamQuietly(StreamView stream) noexcept {
  if (DeviceHangs()) return;
  try {
    AwaitStream(stream, "work on the device");
  } catch (const DeviceError&) {
    // An error of the device was or will be reported by a call that can throw.
  }
}

}  // namespace twin::kernels::cuda
