#include "apps/measured_model.h"

#include <algorithm>
#include <map>
#include <thread>

#include "core/check.h"
#include "core/input_error.h"
#include "core/printable.h"
#include "exec/comm/thread_ranks.h"
#include "exec/device_probe.h"
#include "kernels/cpu_features.h"
#include "kernels/instruction_set.h"

namespace twin::apps {
namespace {

constexpr std::uint64_t kDummySeed = 1;

std::string CudaInstructionSet() {
  const exec::CudaStatus cuda = exec::ProbeCuda();
  CHECK(cuda.usable());
  const exec::CudaDevice& device = cuda.devices[static_cast<std::size_t>(CudaDeviceOf(0))];
  return "sm_" + std::to_string(device.compute_major) + std::to_string(device.compute_minor);
}

}  // namespace

void AddMeasuredModelOptions(CLI::App& command, MeasuredModelOptions& options) {
  const std::map<std::string, ModelDevice> devices{{"cpu", ModelDevice::kCpu},
                                                   {"cuda", ModelDevice::kCuda}};
  command.add_option("--model", options.model, "Directory of config.json and safetensors")
      ->required();
  command.add_flag("--dummy-weights", options.dummy_weights,
                   "Random weights: config.json alone is enough");
  command.add_option("--device", options.device, "Where to compute")
      ->transform(CLI::CheckedTransformer(devices));
  command.add_option("--threads", options.threads, "Default: as many as the machine has")
      ->check(CLI::Range(1, 1024));
}

std::int32_t ThreadsOf(const MeasuredModelOptions& options) {
  if (options.threads > 0) return options.threads;
  return std::max(static_cast<std::int32_t>(std::thread::hardware_concurrency()), 1);
}

MeasuredModel LoadMeasuredModel(const MeasuredModelOptions& options,
                                const exec::ModelConfig& config, DType format,
                                std::int32_t positions, const exec::StepSizes& largest_step) {
  MeasuredModel measured;
  measured.group = exec::MakeThreadGroup(1);
  measured.rank =
      LoadRankModel({.config = config,
                     .weights = options.dummy_weights ? std::filesystem::path()
                                                      : std::filesystem::path(options.model),
                     .seed = kDummySeed,
                     .format = format,
                     .positions = positions,
                     .threads = ThreadsOf(options),
                     .device = options.device,
                     .largest_step = largest_step},
                    *measured.group.front());
  const bool cpu = options.device == ModelDevice::kCpu;
  measured.machine =
      cpu ? kernels::Describe(kernels::DetectCpu()) : exec::DescribeDevice(measured.model());
  measured.instruction_set =
      cpu ? std::string(kernels::Name(kernels::BestInstructionSet())) : CudaInstructionSet();
  return measured;
}

DType ParseDTypeOption(const std::string& option, const std::string& name,
                       std::span<const DType> allowed) {
  if (name.empty()) return allowed.front();
  for (const DType dtype : allowed) {
    if (twin::Name(dtype) == name) return dtype;
  }
  throw InputError(InputError::Kind::kUsage, option,
                   "\"" + Printable(name) + "\" is unknown; allowed: " + NamesOf(allowed));
}

}  // namespace twin::apps
