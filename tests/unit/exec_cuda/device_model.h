// Small random models on a device: an emulated one, or where the test is linked so, a real one.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"
#include "exec/cpu/cpu_model.h"
#include "exec/cuda/load_model.h"
#include "exec/generate_world.h"
#include "exec/generation.h"
#include "exec/model/weights.h"
#include "tests/unit/exec/model_folder.h"

namespace twin::exec::testing {

// Prompts of 1 to 20 tokens, the later ones beginning like the first.
inline std::vector<Generation> Prompts() {
  Random random(3, "prompts");
  std::vector<Generation> generations(4);
  for (std::size_t i = 0; i < generations.size(); ++i) {
    Generation& generation = generations[i];
    generation.tokens_max = 4 + static_cast<std::int32_t>(i);
    if (i >= 2) {
      generation.prompt.assign(generations[0].prompt.begin(), generations[0].prompt.begin() + 8);
    }
    const std::int64_t more = i == 0 ? 20 : random.UniformInt(1, 10);
    for (std::int64_t t = 0; t < more; ++t) {
      generation.prompt.push_back(static_cast<std::int32_t>(random.UniformInt(0, 28)));
    }
  }
  return generations;
}

inline std::vector<Generation> Generated(DeviceModel& model, const GenerationOptions& options) {
  std::vector<Generation> generations = Prompts();
  Generate(model, generations, options);
  return generations;
}

inline GenerationOptions Options(const PolicyConfig& policy, DType kv_dtype = DType::kBf16) {
  return {.policy = policy, .kv_dtype = kv_dtype, .block_size = 4};
}

inline GenerationOptions OptionsOfAllLogits(const PolicyConfig& policy,
                                            DType kv_dtype = DType::kBf16) {
  GenerationOptions options = Options(policy, kv_dtype);
  options.keep = KeptLogits::kAll;
  return options;
}

using Outputs = std::vector<std::vector<std::int32_t>>;

// The tokens behind each of the prompts. `counts` is optional.
inline Outputs OutputsOf(DeviceModel& model, const GenerationOptions& options,
                         GenerationCounts* counts = nullptr) {
  std::vector<Generation> generations = Prompts();
  const GenerationCounts counted = Generate(model, generations, options);
  if (counts != nullptr) *counts = counted;
  Outputs outputs;
  for (const Generation& generation : generations) outputs.push_back(generation.output);
  return outputs;
}

// Activations in 16 bits are off by up to 4 percent (README.md of the reference models).
constexpr double kSixteenBits = 0.04;

// All logits of the prompts, one behind the other. REQUIRES: kept with KeptLogits::kAll.
inline std::vector<float> PromptLogits(const std::vector<Generation>& generations) {
  std::vector<float> logits;
  for (const Generation& generation : generations) {
    for (std::size_t position = 0; position < generation.prompt.size(); ++position) {
      const auto& row = generation.all_logits[position];
      logits.insert(logits.end(), row.begin(), row.end());
    }
  }
  return logits;
}

// A fresh device; of an emulated one, with emulated libraries.
void PrepareDevice();
// Products and attention of a batch give the bits that they give alone: the emulated ones do.
bool DeviceIsExact();

struct DeviceLoad {
  DType dtype = DType::kBf16;
  bool fp8_fast_accumulation = false;
  bool graphs = true;
  StepSizes largest_step = {.tokens = 64, .sequences = 4};
  std::int64_t warmed_bytes_min = std::int64_t{1} << 40;  // none
};

// A configuration of model_folder.h with another number of layers.
inline ModelConfig WithLayers(std::string config, std::int64_t layers) {
  const std::string field = "\"num_hidden_layers\": ";
  config.replace(config.find(field), field.size() + 1, field + std::to_string(layers));
  return ParseModelConfig(config, "config.json");
}

class DeviceModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    PrepareDevice();
    folder_.WriteWeights(RandomTensors(config_, "model."));
  }

  std::unique_ptr<DeviceModel> Load(const DeviceLoad& load) {
    LoadedCudaModel loaded =
        LoadCudaModel({.config = config_,
                       .weights = folder_.path(),
                       .format = load.dtype,
                       .model_options = {.fp8_fast_accumulation = load.fp8_fast_accumulation},
                       .positions = 100,
                       .largest_step = load.largest_step,
                       .graphs = load.graphs,
                       .warmed_bytes_min = load.warmed_bytes_min,
                       .tunes = false,
                       .checks_finite = true},
                      pool_);
    return std::move(loaded.model);
  }

  std::unique_ptr<DeviceModel> LoadOnCpu(DType dtype) {
    return std::make_unique<CpuModel>(
        config_, LoadWeights(folder_.path(), config_, dtype, pool_).weights, 100, pool_);
  }

  ModelConfig config_ = ParseModelConfig(kLlamaConfig, "config.json");
  ModelFolder folder_{"device_model"};
  kernels::ThreadPool pool_{2};
};

}  // namespace twin::exec::testing
