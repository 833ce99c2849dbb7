// Clocks of a GPU while it works, read from NVML by a thread of their own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "exec/cuda/state_probe.h"
#include "exec/shared_library.h"

namespace twin::exec::cuda {

class NvmlClocks {
 public:
  using Clock = std::chrono::steady_clock;

  // Samples the device at this place of the PCI bus about every 2 ms until Stop(), with times since
  // `begin`. Without the library, or if it refuses, there are no samples and why() is not empty.
  NvmlClocks(const std::string& library, const std::string& pci_bus_id, Clock::time_point begin);
  ~NvmlClocks() { Stop(); }
  NvmlClocks(const NvmlClocks&) = delete;
  NvmlClocks& operator=(const NvmlClocks&) = delete;

  void Stop();
  [[nodiscard]] const std::string& why() const { return why_; }
  // REQUIRES: stopped.
  [[nodiscard]] const std::vector<ClockSample>& samples() const { return samples_; }

 private:
  // NVML's types: a status that is 0 on success, and a device's handle.
  using Status = int;
  using Handle = void*;

  void FindFunctions();
  // Returns the name of the call that failed and its status; empty on success.
  std::string FindDevice(const std::string& pci_bus_id);
  ClockSample Sample() const;
  void SampleUntilStopped();

  SharedLibrary library_;
  Clock::time_point begin_;
  std::string why_;
  Status (*init_)() = nullptr;
  Status (*shutdown_)() = nullptr;
  Status (*handle_)(const char*, Handle*) = nullptr;
  Status (*clock_)(Handle, unsigned, unsigned*) = nullptr;
  Status (*power_)(Handle, unsigned*) = nullptr;
  Status (*reasons_)(Handle, unsigned long long*) = nullptr;
  Handle device_ = nullptr;
  bool opened_ = false;
  std::vector<ClockSample> samples_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace twin::exec::cuda
