#include "config/models/model_names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "config/models/preset_files.h"

namespace twin {
namespace {

std::string NameOf(std::string_view name) {
  const std::optional<ModelSpec> model = FindModel(name);
  return model ? model->name : "";
}

TEST(ModelNamesTest, WordsOfACheckpointsNameDoNotCount) {
  EXPECT_EQ(NameOf("Qwen3-14B"), "qwen3-14b");
  EXPECT_EQ(NameOf("CodeLlama-34b-Instruct-hf"), "codellama-34b");
  EXPECT_EQ(NameOf("Llama-2-70b-chat-hf"), "llama-2-70b");
  EXPECT_EQ(NameOf("Meta-Llama-3-8B-Instruct"), "llama-3-8b");
  EXPECT_EQ(NameOf("gemma-3-27b-it"), "gemma-3-27b");
  EXPECT_EQ(NameOf("Qwen3-Coder-480B-A35B-Instruct"), "qwen3-coder-480b-a35b");
  EXPECT_EQ(NameOf("Llama-4-Maverick-17B-128E-Instruct-FP8"), "llama-4-maverick-17b-128e-fp8");
  EXPECT_EQ(NameOf("NVIDIA-Nemotron-Nano-9B-v2"), "nemotron-nano-9b-v2");
  EXPECT_EQ(NameOf("NVIDIA-Nemotron-3"), "");
  EXPECT_EQ(NameOf("NVIDIA-Nemotron-Nano-12B-v2-Base"), "nemotron-nano-12b-v2");
  EXPECT_EQ(NameOf("Ling-flash-base-2.0"), "ling-flash-2.0");
  EXPECT_EQ(NameOf("Ling-1T-FP8"), "ling-1t-fp8");
  EXPECT_EQ(NameOf("step3"), "step-3");
}

TEST(ModelNamesTest, CheckpointsOfAPresetsShapeHaveTheirOwnNamesAndPositions) {
  EXPECT_EQ(NameOf("DeepSeek-R1-0528"), "deepseek-r1-0528");
  EXPECT_EQ(ModelPreset("deepseek-r1").groups, ModelPreset("deepseek-v3").groups);
  EXPECT_EQ(NameOf("Llama-3.3-70B-Instruct"), "llama-3.3-70b");
  EXPECT_EQ(ModelPreset("Qwen2.5-7B").max_position, 131072);
  EXPECT_EQ(ModelPreset("Qwen2.5-7B-Instruct").max_position, 32768);
  EXPECT_EQ(ModelPreset("CodeLlama-70b-Instruct-hf").max_position, 4096);
  EXPECT_EQ(ModelPreset("kimi-k2-instruct-0905").max_position, 262144);
  EXPECT_EQ(ModelPreset("Qwen3-30B-A3B-Thinking-2507").max_position, 262144);
  EXPECT_EQ(ModelPreset("Qwen3-VL-8B-Instruct").max_position, 262144);
  EXPECT_EQ(ModelPreset("Llama-3_3-Nemotron-Super-49B-v1_5").groups,
            ModelPreset("llama-3.3-nemotron-super-49b").groups);
  EXPECT_EQ(ModelPreset("Llama-3_1-Nemotron-Ultra-253B-v1").layers, 162);
  EXPECT_EQ(ModelPreset("ERNIE-4.5-21B-A3B-Base-PT").groups,
            ModelPreset("ernie-4.5-21b-a3b").groups);
  EXPECT_EQ(ModelPreset("Ministral-3-8B-Instruct-2512").layers, 34);
  EXPECT_EQ(ModelPreset("DeepSeek-R1-Distill-Llama-8B").groups, ModelPreset("llama-3.1-8b").groups);
}

TEST(ModelNamesTest, EveryNameOfTheTableFindsAModelOfThatName) {
  const auto tables = PresetTables();
  const auto aliases = std::ranges::find(tables, "aliases.csv", &EmbeddedFile::name);
  ASSERT_NE(aliases, tables.end());
  std::istringstream lines{std::string(aliases->bytes)};
  std::string line;
  std::getline(lines, line);  // the header
  int count = 0;
  while (std::getline(lines, line)) {
    const std::string name = line.substr(0, line.find(','));
    EXPECT_EQ(NameOf(name), name);
    ++count;
  }
  EXPECT_EQ(count, 88);
}

TEST(ModelNamesTest, ASuffixChoosesTheFormatOfTheParts) {
  EXPECT_EQ(ModelPreset("Qwen3-8B-FP8").weight_dtype, DType::kFp8Block);
  EXPECT_EQ(ModelPreset("Llama-3.1-70B-Instruct-FP8").weight_dtype, DType::kFp8);
  const ModelSpec r1 = ModelPreset("DeepSeek-R1-0528-NVFP4");
  EXPECT_EQ(r1.name, "deepseek-r1-0528-nvfp4");
  EXPECT_EQ(r1.weight_dtype, DType::kBf16);  // of attention
  EXPECT_EQ(r1.formats.experts, DType::kNvfp4);
  EXPECT_EQ(r1.formats.dense, DType::kNvfp4);
  EXPECT_EQ(r1.formats.shared, DType::kNvfp4);
  EXPECT_EQ(r1.kv_dtype, DType::kFp8);
  const ModelSpec qwen = ModelPreset("qwen3.5-397b-a17b-nvfp4");
  EXPECT_EQ(qwen.formats.attention, DType::kNvfp4);
  EXPECT_EQ(qwen.formats.recurrent, std::nullopt);
  EXPECT_EQ(ModelPreset("Qwen3-32B-AWQ").weight_dtype, DType::kInt4);
  EXPECT_EQ(ModelPreset("Meta-Llama-3.1-8B-Instruct-quantized.w4a16").weight_dtype, DType::kInt4);
  EXPECT_EQ(ModelPreset("Qwen3-30B-A3B-FP8-dynamic").weight_dtype, DType::kFp8);
  EXPECT_EQ(ModelPreset("DeepSeek-R1-0528-FP4-v2").formats.experts, DType::kNvfp4);
  EXPECT_EQ(ModelPreset("gpt-oss-120b").formats.experts, DType::kMxfp4);
  EXPECT_EQ(ModelPreset("kimi-k2.5").formats.experts, DType::kInt4Group32);
}

TEST(ModelNamesTest, OtherModelsAreNotTakenForTheirNeighbours) {
  EXPECT_EQ(NameOf("Mistral-7B-Instruct-v0.2"), "");
  EXPECT_EQ(NameOf("Qwen3-14B-GGUF"), "");
  EXPECT_EQ(NameOf("bloom-7b1"), "");
  EXPECT_EQ(NameOf("DeepSeek-R1-Distill-Qwen-1.5B"), "");
  EXPECT_EQ(NameOf("Llama-3.1-8"), "");
  EXPECT_EQ(NameOf(""), "");
}

}  // namespace
}  // namespace twin
