#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "config/models/model_names.h"
#include "core/input_error.h"
#include "core/model_names.h"
#include "core/model_presets.h"

namespace twin {
namespace {

constexpr const char* kOtherNames[] = {"bloom",
                                       "c4ai-command-a-03-2025",
                                       "c4ai-command-r7b-12-2024",
                                       "codellama-70b-instruct",
                                       "deepseek-coder-v2-lite",
                                       "deepseek-r1",
                                       "deepseek-r1-0528",
                                       "deepseek-r1-distill-llama-70b",
                                       "deepseek-r1-distill-llama-8b",
                                       "deepseek-r1-distill-qwen-14b",
                                       "deepseek-r1-distill-qwen-32b",
                                       "deepseek-r1-distill-qwen-7b",
                                       "deepseek-v2.5",
                                       "deepseek-v3-0324",
                                       "deepseek-v3.1",
                                       "deepseek-v3.1-terminus",
                                       "deepseek-v3.2-exp",
                                       "deepseek-v3.2-speciale",
                                       "dots.llm1.base",
                                       "dots.llm1.inst",
                                       "ernie-4.5-21b-a3b-pt",
                                       "ernie-4.5-21b-a3b-thinking",
                                       "ernie-4.5-300b-a47b-pt",
                                       "glm-4.6",
                                       "glm-4.6v",
                                       "glm-4.7",
                                       "glm-5.1",
                                       "glm-5.3",
                                       "kimi-k2-0905",
                                       "kimi-k2-instruct-0905",
                                       "kimi-k2-thinking",
                                       "kimi-k2.6",
                                       "kimi-k2.7-code",
                                       "llama-3.3-70b",
                                       "llama-3.3-nemotron-super-49b-v1",
                                       "llama-3.3-nemotron-super-49b-v1.5",
                                       "llama-3_1-nemotron-ultra-253b-v1",
                                       "llama-3_3-nemotron-super-49b-v1",
                                       "llama-3_3-nemotron-super-49b-v1_5",
                                       "llama-4-maverick-17b-128e",
                                       "llama-4-scout-17b-16e",
                                       "minimax-m2.1",
                                       "minimax-m2.7",
                                       "ministral-3-8b-2512",
                                       "ministral-3-8b-reasoning-2512",
                                       "mistral-7b-instruct-v0.3",
                                       "mistral-large-123b",
                                       "mistral-nemo-base-2407",
                                       "mistral-nemo-instruct-2407",
                                       "mistral-small-24b-2501",
                                       "mistral-small-4-119b-2603",
                                       "mixtral-8x22b-v0.1",
                                       "mixtral-8x7b-v0.1",
                                       "nemotron-h-56b-8k",
                                       "olmo-3-1025-7b",
                                       "olmo-3-1125-32b",
                                       "qwen2-72b-instruct",
                                       "qwen2-7b-instruct",
                                       "qwen2.5-1.5b-instruct",
                                       "qwen2.5-14b-instruct",
                                       "qwen2.5-32b-instruct",
                                       "qwen2.5-72b-instruct",
                                       "qwen2.5-7b-instruct",
                                       "qwen3-0.6b-base",
                                       "qwen3-1.7b-base",
                                       "qwen3-14b-base",
                                       "qwen3-235b-a22b-instruct-2507",
                                       "qwen3-235b-a22b-thinking-2507",
                                       "qwen3-30b-a3b-base",
                                       "qwen3-30b-a3b-instruct-2507",
                                       "qwen3-30b-a3b-thinking-2507",
                                       "qwen3-4b-base",
                                       "qwen3-4b-instruct-2507",
                                       "qwen3-4b-thinking-2507",
                                       "qwen3-8b-base",
                                       "qwen3-coder-30b-a3b",
                                       "qwen3-next-80b-a3b-thinking",
                                       "qwen3-vl-235b-a22b-instruct",
                                       "qwen3-vl-235b-a22b-thinking",
                                       "qwen3-vl-2b",
                                       "qwen3-vl-30b-a3b",
                                       "qwen3-vl-32b",
                                       "qwen3-vl-32b-thinking",
                                       "qwen3-vl-4b",
                                       "qwen3-vl-8b",
                                       "qwen3.6-27b",
                                       "qwen3.6-35b-a3b",
                                       "phi-2",
                                       "decilm-7b",
                                       "deepseek-v4",
                                       "jamba",
                                       "",
                                       "phi-2-awq",
                                       "DeepSeek-V4-Pro",
                                       "deepseek-ai/DeepSeek-V4",
                                       "jamba-1.5",
                                       "qwen",
                                       "bloom-7b1",
                                       "llama-9"};

std::vector<std::string> Names(std::span<const std::string_view> names) {
  return {names.begin(), names.end()};
}

std::string RefusalOf(ModelSpec (*find)(std::string_view), const std::string& name) {
  try {
    return "found " + find(name).name;
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(StoredPresetsTest, FilesHaveTheNamesInTheirOrder) {
  EXPECT_EQ(Names(stored::ModelPresetNames()), Names(ModelPresetNames()));
  EXPECT_EQ(ModelPresetNames().size(), 132U);
}

TEST(StoredPresetsTest, EveryFileIsReadAsItsPreset) {
  for (const std::string_view name : ModelPresetNames()) {
    const std::optional<ModelSpec> read = stored::FindModel(name);
    ASSERT_TRUE(read) << name;
    const ModelSpec preset = *FindModelPreset(name);
    EXPECT_EQ(TotalParameters(*read), TotalParameters(preset)) << name;
    EXPECT_EQ(read->groups.size(), preset.groups.size()) << name;
    EXPECT_EQ(read->max_position, preset.max_position) << name;
    EXPECT_TRUE(*read == preset) << name;
    EXPECT_EQ(stored::FindPresetName(name), name);
  }
}

// Names of the tables, in other letters, with words and formats, and names that are refused.
TEST(StoredPresetsTest, OtherNamesFindTheSameOrAreRefusedAlike) {
  std::vector<std::string> names = Names(ModelPresetNames());
  for (const char* const name : kOtherNames) names.emplace_back(name);
  const std::vector<std::string> plain = names;
  for (const std::string& name : plain) {
    for (const char* const end : {"-fp8", "-nvfp4", "-fp4", "-mxfp4", "-int4", "-instruct",
                                  "-chat-hf", "-it-bf16", "-FP8", "x", "-awq"}) {
      names.push_back(name + end);
    }
    names.push_back("meta-" + name);
    names.push_back("nobody/" + name);
    std::string upper = name;
    std::ranges::transform(upper, upper.begin(),
                           [](char c) { return static_cast<char>(std::toupper(c)); });
    std::ranges::replace(upper, '-', '_');
    names.push_back(upper);
  }
  for (const std::string& name : names) {
    EXPECT_TRUE(stored::FindModel(name) == FindModel(name)) << name;
    EXPECT_EQ(stored::WhyNotDescribed(name), WhyNotDescribed(name)) << name;
    if (!FindModel(name)) {
      EXPECT_EQ(RefusalOf(stored::ModelPreset, name), RefusalOf(ModelPreset, name)) << name;
    }
  }
}

}  // namespace
}  // namespace twin
