#include "exec/cuda/nvml_clocks.h"

#include <fmt/format.h>

namespace twin::exec::cuda {
namespace {

constexpr unsigned kSmClock = 1;      // NVML_CLOCK_SM
constexpr unsigned kMemoryClock = 2;  // NVML_CLOCK_MEM
constexpr auto kInterval = std::chrono::milliseconds(2);

}  // namespace

NvmlClocks::NvmlClocks(const std::string& library, const std::string& pci_bus_id,
                       Clock::time_point begin)
    : library_(library.c_str()), begin_(begin) {
  if (!library_.open()) {
    why_ = library_.why();
    return;
  }
  FindFunctions();
  if (why_.empty()) why_ = FindDevice(pci_bus_id);
  if (why_.empty()) thread_ = std::thread([this] { SampleUntilStopped(); });
}

void NvmlClocks::FindFunctions() {
  init_ = library_.Find<Status()>("nvmlInit_v2");
  shutdown_ = library_.Find<Status()>("nvmlShutdown");
  handle_ = library_.Find<Status(const char*, Handle*)>("nvmlDeviceGetHandleByPciBusId_v2");
  clock_ = library_.Find<Status(Handle, unsigned, unsigned*)>("nvmlDeviceGetClockInfo");
  power_ = library_.Find<Status(Handle, unsigned*)>("nvmlDeviceGetPowerUsage");
  // The names of the function before version 12.2 of the library, and since.
  for (const char* const name :
       {"nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetCurrentClocksEventReasons"}) {
    auto* const found = library_.Find<Status(Handle, unsigned long long*)>(name);
    if (found != nullptr) reasons_ = found;
  }
  if (init_ == nullptr || shutdown_ == nullptr || handle_ == nullptr || clock_ == nullptr) {
    why_ = "the library lacks a function of NVML";
  }
}

std::string NvmlClocks::FindDevice(const std::string& pci_bus_id) {
  if (const Status status = init_(); status != 0) {
    return fmt::format("nvmlInit_v2 failed with {}", status);
  }
  opened_ = true;
  if (const Status status = handle_(pci_bus_id.c_str(), &device_); status != 0) {
    return fmt::format("nvmlDeviceGetHandleByPciBusId_v2({}) failed with {}", pci_bus_id, status);
  }
  return "";
}

ClockSample NvmlClocks::Sample() const {
  ClockSample sample;
  sample.ms = std::chrono::duration<double, std::milli>(Clock::now() - begin_).count();
  unsigned value = 0;
  if (clock_(device_, kSmClock, &value) == 0) sample.sm_mhz = value;
  if (clock_(device_, kMemoryClock, &value) == 0) sample.memory_mhz = value;
  if (power_ != nullptr && power_(device_, &value) == 0) sample.watts = value * 1e-3;
  unsigned long long reasons = 0;
  if (reasons_ != nullptr && reasons_(device_, &reasons) == 0) sample.event_reasons = reasons;
  return sample;
}

void NvmlClocks::SampleUntilStopped() {
  while (!stop_) {
    samples_.push_back(Sample());
    std::this_thread::sleep_for(kInterval);
  }
}

void NvmlClocks::Stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  if (opened_) shutdown_();
  opened_ = false;
}

}  // namespace twin::exec::cuda
