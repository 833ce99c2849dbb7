#include "run/real/machine_gpus.h"

#include <fmt/format.h>

#include <variant>

#include "exec/device_probe.h"

namespace twin::run {

std::optional<MachineGpus> GpusOfRun(const ExperimentConfig& config) {
  if (std::get<RealWorldConfig>(config.world).device != RealWorldConfig::Device::kCuda)
    return std::nullopt;
  const exec::CudaStatus cuda = exec::ProbeCuda();
  MachineGpus gpus{.devices = {},
                   .driver_cuda = exec::CudaVersionText(cuda.driver_version),
                   .runtime_cuda = exec::CudaVersionText(cuda.runtime_version)};
  for (const exec::CudaDevice& device : cuda.devices) {
    if (static_cast<std::int32_t>(gpus.devices.size()) == config.system.parallelism.devices())
      break;
    gpus.devices.push_back(
        {.name = device.name,
         .compute_capability = fmt::format("{}.{}", device.compute_major, device.compute_minor),
         .memory_bytes = device.total_bytes});
  }
  return gpus;
}

}  // namespace twin::run
