// Reference models through the code of `twinserve generate`, on any device.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exec/cpu/cpu_model.h"
#include "exec/generation.h"
#include "exec/model/model_config.h"
#include "exec/model/weights.h"
#include "sched/policy/vllm_v1.h"
#include "tests/golden/models/reference_model.h"

namespace twin::testing {

// What of a model directory is loaded, and how.
struct ReferenceLoad {
  std::filesystem::path directory;
  exec::ModelConfig config;
  DType dtype{};
  std::int32_t positions = 0;
};
using LoadReference =
    std::function<std::unique_ptr<exec::DeviceModel>(const ReferenceLoad&, kernels::ThreadPool&)>;

inline std::unique_ptr<exec::DeviceModel> LoadOnCpu(const ReferenceLoad& load,
                                                    kernels::ThreadPool& pool) {
  exec::LoadedWeights loaded = exec::LoadWeights(load.directory, load.config, load.dtype, pool);
  EXPECT_TRUE(loaded.warnings.empty()) << loaded.warnings.front();
  return std::make_unique<exec::CpuModel>(load.config, std::move(loaded.weights), load.positions,
                                          pool);
}

// How much of each reference is computed: its prompts of at most so many tokens, and so many tokens
// of output.
struct ReferenceCut {
  std::size_t prompt_tokens_max = 1 << 20;
  std::size_t output_tokens_max = 1 << 20;

  [[nodiscard]] ReferenceModel Of(ReferenceModel reference) const {
    std::erase_if(reference.prompts, [&](const ReferencePrompt& prompt) {
      return prompt.tokens.size() > prompt_tokens_max;
    });
    for (ReferencePrompt& prompt : reference.prompts) {
      prompt.greedy.resize(std::min(prompt.greedy.size(), output_tokens_max));
    }
    return reference;
  }
};

// Chunks of at most 13 tokens, three requests at a time, blocks of 5: nothing divides anything.
inline exec::GenerationOptions SmallChunks(DType dtype, exec::KeptLogits keep) {
  exec::GenerationOptions options;
  options.policy = VllmV1Config{.max_num_batched_tokens = 13, .max_num_seqs = 3};
  options.keep = keep;
  options.kv_dtype = dtype;
  options.block_size = 5;
  return options;
}

// The steps that the reference names, or SmallChunks().
inline exec::GenerationOptions StepsOf(const ReferenceModel& reference, DType dtype,
                                       exec::KeptLogits keep) {
  exec::GenerationOptions options = SmallChunks(dtype, keep);
  const auto asked = reference.facts.find("generation");
  if (asked == reference.facts.end()) return options;
  auto& policy = options.policy.Get<VllmV1Config>();
  policy.max_num_batched_tokens = asked->at("max_num_batched_tokens").get<std::int32_t>();
  policy.max_num_seqs = asked->at("max_num_seqs").get<std::int32_t>();
  options.block_size = asked->at("block_size").get<std::int32_t>();
  return options;
}

inline std::vector<exec::Generation> GenerateFor(const ReferenceModel& reference, DType dtype,
                                                 const exec::GenerationOptions& options,
                                                 const LoadReference& load) {
  kernels::ThreadPool pool(2);
  std::vector<exec::Generation> generations;
  std::size_t longest = 0;
  for (const ReferencePrompt& prompt : reference.prompts) {
    const auto tokens = static_cast<std::int32_t>(prompt.greedy.size());
    generations.push_back({.prompt = prompt.tokens, .tokens_max = tokens});
    longest = std::max(longest, prompt.tokens.size() + prompt.greedy.size());
  }
  const std::unique_ptr<exec::DeviceModel> model =
      load({.directory = reference.directory,
            .config = exec::ReadModelConfig(reference.directory),
            .dtype = dtype,
            .positions = static_cast<std::int32_t>(longest)},
           pool);
  exec::Generate(*model, generations, options);
  return generations;
}

inline void ExpectReference(const ReferenceModel& reference, DType dtype,
                            const LoadReference& load) {
  const std::vector<exec::Generation> generations =
      GenerateFor(reference, dtype, StepsOf(reference, dtype, exec::KeptLogits::kAll), load);
  const ReferenceTolerance tolerance = reference.Tolerance(dtype);
  double worst = 0;
  for (std::size_t i = 0; i < generations.size(); ++i) {
    const ReferencePrompt& expected = reference.prompts[i];
    worst = std::max(worst, RelativeDistance(generations[i].last_logits, expected.last_logits));
    for (std::size_t j = 0; j < expected.all_logits.size(); ++j) {
      worst =
          std::max(worst, RelativeDistance(generations[i].all_logits[j], expected.all_logits[j]));
    }
    const std::int32_t wrong = FirstWrongToken(generations[i].output, expected, tolerance.margin);
    EXPECT_EQ(wrong, -1) << "prompt " << i << ": the first step with another token";
  }
  EXPECT_LE(worst, tolerance.logits);
  std::printf("%-20s %s: worst relative L2 %.1e, tolerance %.1e\n",
              reference.directory.filename().c_str(), std::string(Name(dtype)).c_str(), worst,
              tolerance.logits);
}

inline std::set<std::string> ReferenceNames() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(ReferenceModels())) {
    const std::string name = entry.path().filename().string();
    if (name != "bad" && entry.is_directory()) names.insert(name);
  }
  return names;
}

// The models of the source tree whose names begin so, in the order of names.
inline std::vector<std::filesystem::path> ReferencesNamed(const std::string& begin) {
  std::vector<std::filesystem::path> found;
  const std::filesystem::path folder =
      std::filesystem::path(TWIN_SOURCE_DIR) / "tests" / "golden" / "models";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(begin)) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Models whose heads have the sizes that attention kernels of GPUs take.
inline std::vector<std::filesystem::path> AttentionReferences() {
  return ReferencesNamed("attention-");
}

// Compares all models of the data set that state a tolerance for the format; returns how many.
inline std::int32_t ExpectAllReferences(DType dtype, const LoadReference& load,
                                        const ReferenceCut& cut = {}) {
  const std::filesystem::path folder = ReferenceModels();
  std::int32_t compared = 0;
  for (const std::string& name : ReferenceNames()) {
    SCOPED_TRACE(name);
    const ReferenceModel reference = ReadReference(folder / name);
    if (!reference.HasTolerance(dtype)) continue;
    ExpectReference(cut.Of(reference), dtype, load);
    ++compared;
  }
  return compared;
}

}  // namespace twin::testing
