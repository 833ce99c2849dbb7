#include "run/real/measured_model.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "core/check.h"
#include "core/input_error.h"
#include "core/printable.h"
#include "exec/comm/thread_ranks.h"
#include "exec/device_probe.h"
#include "kernels/cpu_features.h"
#include "kernels/instruction_set.h"

namespace twin::run {
namespace {

constexpr std::uint64_t kDummySeed = 1;

std::string CudaInstructionSet() {
  const exec::CudaStatus cuda = exec::ProbeCuda();
  CHECK(cuda.usable());
  const exec::CudaDevice& device = cuda.devices[static_cast<std::size_t>(CudaDeviceOf(0))];
  return "sm_" + std::to_string(device.compute_major) + std::to_string(device.compute_minor);
}

}  // namespace

std::int32_t ThreadsOf(const MeasuredModelOptions& options) {
  if (options.threads > 0) return options.threads;
  return std::max(static_cast<std::int32_t>(std::thread::hardware_concurrency()), 1);
}

ComputedModel ReadMeasuredModel(const MeasuredModelOptions& options) {
  return ReadServedModel({.option = "--model",
                          .model = options.model,
                          .dummy_weights = options.dummy_weights,
                          .dummy_option = "--dummy-weights"});
}

MeasuredModel LoadMeasuredModel(const MeasuredModelOptions& options, const ComputedModel& model,
                                DType format, std::int32_t positions,
                                const exec::StepSizes& largest_step, RunControl& control,
                                std::vector<std::int64_t> decode_batches) {
  MeasuredModel measured;
  measured.group = exec::MakeThreadGroup(1);
  measured.rank = LoadRankModel({.config = model.config,
                                 .weights = model.weights,
                                 .seed = kDummySeed,
                                 .format = format,
                                 .model_options = options.model_options,
                                 .positions = positions,
                                 .threads = ThreadsOf(options),
                                 .device = options.device,
                                 .largest_step = largest_step,
                                 .decode_batches = std::move(decode_batches)},
                                *measured.group.front(), control);
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

}  // namespace twin::run
