// The model that bench and profile measure, from their options.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <CLI/CLI.hpp>

#include "core/dtype.h"
#include "exec/model/model_config.h"
#include "exec/model/weights.h"
#include "kernels/thread_pool.h"

namespace twin::apps {

struct MeasuredModelOptions {
  std::string model;
  bool dummy_weights = false;
  std::string device = "cpu";
  std::int32_t threads = 0;  // 0: as many as the machine has
};

void AddMeasuredModelOptions(CLI::App& command, MeasuredModelOptions& options);

// Throws InputError (usage) where the device is one that this build cannot compute on.
void RequireDevice(const MeasuredModelOptions& options);

std::int32_t ThreadsOf(const MeasuredModelOptions& options);

// Weights packed as `format`: the directory's, or random ones where dummy_weights says so. Prints
// warnings of the loader on stderr. Throws InputError (data).
exec::ModelWeights WeightsOf(const MeasuredModelOptions& options, const exec::ModelConfig& config,
                             DType format, kernels::ThreadPool& pool);

// Parses a name of `allowed`. Throws InputError (usage) naming the option.
DType ParseDTypeOption(const std::string& option, const std::string& name,
                       std::initializer_list<DType> allowed);

// Of the KV cache: `name`, or if that is empty fp32 for fp32 weights and bf16 for others.
// Throws InputError (usage).
DType KvDTypeOf(const std::string& name, DType weights);

}  // namespace twin::apps
