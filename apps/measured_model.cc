#include "apps/measured_model.h"

#include <algorithm>
#include <iostream>
#include <thread>

#include "core/input_error.h"
#include "core/printable.h"

namespace twin::apps {
namespace {

constexpr std::uint64_t kDummySeed = 1;

}  // namespace

void AddMeasuredModelOptions(CLI::App& command, MeasuredModelOptions& options) {
  command.add_option("--model", options.model, "Directory of config.json and safetensors")
      ->required();
  command.add_flag("--dummy-weights", options.dummy_weights,
                   "Random weights: config.json alone is enough");
  command.add_option("--device", options.device, "Where to compute")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command.add_option("--threads", options.threads, "Default: as many as the machine has")
      ->check(CLI::Range(1, 1024));
}

void RequireDevice(const MeasuredModelOptions& options) {
  if (options.device == "cpu") return;
  throw InputError(InputError::Kind::kUsage, "--device",
                   "cuda: this build has no CUDA executor to measure; allowed: cpu");
}

std::int32_t ThreadsOf(const MeasuredModelOptions& options) {
  if (options.threads > 0) return options.threads;
  return std::max(static_cast<std::int32_t>(std::thread::hardware_concurrency()), 1);
}

exec::ModelWeights WeightsOf(const MeasuredModelOptions& options, const exec::ModelConfig& config,
                             DType format, kernels::ThreadPool& pool) {
  if (options.dummy_weights) return exec::MakeDummyWeights(config, format, kDummySeed, pool);
  exec::LoadedWeights loaded = exec::LoadWeights(options.model, config, format, pool);
  for (const std::string& warning : loaded.warnings) std::cerr << "warning: " << warning << "\n";
  return std::move(loaded.weights);
}

DType ParseDTypeOption(const std::string& option, const std::string& name,
                       std::initializer_list<DType> allowed) {
  std::string names;
  for (const DType dtype : allowed) {
    if (Name(dtype) == name) return dtype;
    names += (names.empty() ? "" : ", ") + std::string(Name(dtype));
  }
  throw InputError(InputError::Kind::kUsage, option,
                   "\"" + Printable(name) + "\" is unknown; allowed: " + names);
}

DType KvDTypeOf(const std::string& name, DType weights) {
  if (name.empty()) return weights == DType::kFp32 ? DType::kFp32 : DType::kBf16;
  return ParseDTypeOption("--kv-dtype", name, {DType::kFp32, DType::kBf16});
}

}  // namespace twin::apps
