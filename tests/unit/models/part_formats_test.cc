#include "config/models/part_formats.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include <nlohmann/json.hpp>

#include "config/models/model_names.h"
#include "core/input_error.h"

namespace twin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::optional<PartFormats> Formats(const char* preset, const std::string& quantised) {
  const nlohmann::json object = nlohmann::json::parse("{" + quantised + "}");
  return ReadPartFormats({object, "config.json: quantization_config"}, ModelPreset(preset));
}

WeightFormats AttentionIn16Bits() {
  WeightFormats formats;
  formats.attention = DType::kBf16;
  return formats;
}

// config_groups of compressed-tensors with weights of this scheme.
std::string Compressed(const std::string& weights, const std::string& ignored) {
  return R"("quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": )"
         R"(["Linear"], "weights": {)" +
         weights + R"(}}}, "ignore": [)" + ignored + "]";
}

TEST(PartFormatsTest, BlocksOf128x128HaveAFormatOfTheirOwn) {
  const auto blocks = Formats("deepseek-v3", R"("quant_method": "fp8",
                                               "weight_block_size": [128, 128])");
  EXPECT_EQ(blocks->weights, DType::kFp8Block);
  EXPECT_EQ(blocks->parts, WeightFormats{});
  EXPECT_EQ(Formats("qwen3-8b", R"("quant_method": "fp8")")->weights, DType::kFp8);
  EXPECT_THAT(
      [] { Formats("qwen3-8b", R"("quant_method": "fp8", "weight_block_size": [64, 128])"); },
      ThrowsMessage<InputError>(HasSubstr("weight_block_size is [64,128], must be [128, 128]")));
}

// Qwen3-Next-80B-A3B-Instruct-FP8 lists routers and the small matrices of recurrent layers.
TEST(PartFormatsTest, RoutersHeadAndSmallMatricesChangeNoPart) {
  const auto formats = Formats("qwen3-next-80b-a3b", R"("quant_method": "fp8",
      "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head",
      "model.embed_tokens", "model.layers.0.linear_attn.in_proj_ba",
      "model.layers.0.linear_attn.conv1d", "model.layers.0.mlp.gate",
      "model.layers.0.mlp.shared_expert_gate", "model.layers.3.self_attn.q_norm"])");
  EXPECT_EQ(formats->weights, DType::kFp8Block);
  EXPECT_EQ(formats->parts, WeightFormats{});
}

// GLM-5-NVFP4 leaves out attention and its index, GLM-5-FP8 the weights of the index's heads.
TEST(PartFormatsTest, AnIndexIsAPartOfAttention) {
  std::string attention;
  for (int i = 0; i < 78; ++i) {
    attention += fmt::format(R"({}"model.layers.{}.self_attn.q*", "model.layers.{}.self_attn.kv*",
        "model.layers.{}.self_attn.o_proj", "model.layers.{}.self_attn.indexer*")",
                             i > 0 ? ", " : "", i, i, i, i);
  }
  const auto nvfp4 = Formats("glm-5", R"("quant_method": "modelopt", "quant_algo": "NVFP4",
      "exclude_modules": [)" + attention + "]");
  EXPECT_EQ(nvfp4->parts, AttentionIn16Bits());
  const auto fp8 = Formats("glm-5", R"("quant_method": "fp8", "modules_to_not_convert":
      ["model.layers.0.self_attn.indexers_proj"])");
  EXPECT_EQ(fp8->parts, WeightFormats{});
}

// Kimi-K2-Thinking: routed experts in groups of 32, all else in 16 bits.
TEST(PartFormatsTest, ExpressionsLeaveOutParts) {
  const auto formats =
      Formats("kimi-k2", Compressed(R"("num_bits": 4, "type": "int", "group_size": 32,
                               "strategy": "group")",
                                    R"("lm_head", "re:.*self_attn.*", "re:.*shared_experts.*",
                               "re:.*mlp\\.(gate|up|gate_up|down)_proj.*")"));
  EXPECT_EQ(formats->weights, DType::kInt4Group32);
  WeightFormats others = AttentionIn16Bits();
  others.dense = others.shared = DType::kBf16;
  EXPECT_EQ(formats->parts, others);
}

// DeepSeek-R1-NVFP4: attention of each layer, and the module of multi-token prediction behind the
// 61 layers, stay in 16 bits; the cache is in fp8.
TEST(PartFormatsTest, NamesOfAllLayersLeaveOutAPart) {
  std::string excluded = R"("lm_head", "model.layers.61*")";
  for (int layer = 0; layer < 61; ++layer) {
    excluded += ", \"model.layers." + std::to_string(layer) + ".self_attn\"";
  }
  const auto formats = Formats("deepseek-v3", R"("quant_method": "modelopt", "quant_algo": "NVFP4",
      "kv_cache_quant_algo": "FP8", "exclude_modules": [)" +
                                                  excluded + "]");
  EXPECT_EQ(formats->weights, DType::kNvfp4);
  EXPECT_EQ(formats->parts, AttentionIn16Bits());
  EXPECT_EQ(formats->kv, DType::kFp8);
}

TEST(PartFormatsTest, PatternsLeaveOutParts) {
  const auto formats = Formats("qwen3-30b-a3b", R"("quant_method": "modelopt",
      "quant_algo": "FP8", "ignore": ["*self_attn*", "lm_head", "*router*"])");
  EXPECT_EQ(formats->weights, DType::kFp8);
  EXPECT_EQ(formats->parts, AttentionIn16Bits());
}

TEST(PartFormatsTest, APartIsLeftOutAsAWholeOrNotAtAll) {
  EXPECT_THAT(
      [] {
        Formats("qwen3-8b", R"("quant_method": "fp8",
                               "modules_to_not_convert": ["model.layers.0.self_attn"])");
      },
      ThrowsMessage<InputError>(HasSubstr("left out in 1 of 36 layers")));
  EXPECT_THAT(
      [] {
        Formats("qwen3-8b", R"("quant_method": "fp8",
                               "modules_to_not_convert": ["re:.*self_attn\\.o_proj"])");
      },
      ThrowsMessage<InputError>(AllOf(HasSubstr("1 of the 4 matrices of attention"),
                                      HasSubstr("none, or most of them"))));
}

// NVIDIA's DeepSeek-V3.1-NVFP4 quantises one of the five matrices of attention, o_proj.
TEST(PartFormatsTest, APartOfWhichMostMatricesAreLeftOutHas16BitsAndANote) {
  const auto formats = Formats("deepseek-v3", R"("quant_method": "modelopt", "quant_algo": "NVFP4",
      "exclude_modules": ["*self_attn.q_a_proj*", "*self_attn.q_b_proj*",
      "*self_attn.kv_a_proj_with_mqa*", "*self_attn.kv_b_proj*", "lm_head"])");
  EXPECT_EQ(formats->weights, DType::kNvfp4);
  EXPECT_EQ(formats->parts, AttentionIn16Bits());
  EXPECT_EQ(formats->note,
            "exclude_modules leaves 4 of the 5 matrices of attention in 16 bits; all 5 are "
            "computed so");
  EXPECT_EQ(Formats("qwen3-8b", R"("quant_method": "fp8")")->note, "");
}

TEST(PartFormatsTest, UnknownModulesMethodsAndSchemesAreNamed) {
  EXPECT_THAT(
      [] {
        Formats("qwen3-8b",
                R"("quant_method": "fp8", "modules_to_not_convert": ["model.layers.0.atention"])");
      },
      ThrowsMessage<InputError>(HasSubstr("'model.layers.0.atention', which names no module")));
  EXPECT_THAT(
      [] {
        Formats("qwen3-8b", R"("quant_method": "fp8",
                                          "modules_to_not_convert": ["re:("])");
      },
      ThrowsMessage<InputError>(HasSubstr("is no regular expression")));
  EXPECT_THAT([] { Formats("qwen3-8b", Compressed(R"("num_bits": 3, "type": "int")", "")); },
              ThrowsMessage<InputError>(HasSubstr("weights of 3 bits of type 'int'")));
  EXPECT_THAT(
      [] { Formats("qwen3-8b", R"("quant_method": "modelopt", "quant_algo": "W4A8_AWQ")"); },
      ThrowsMessage<InputError>(HasSubstr("quant_algo 'W4A8_AWQ' is not modelled")));
  EXPECT_THAT([] { Formats("qwen3-8b", R"("quant_method": "mxfp4")"); },
              ThrowsMessage<InputError>(HasSubstr("needs a mixture of experts")));
  EXPECT_EQ(Formats("qwen3-8b", R"("quant_method": "bitsandbytes")"), std::nullopt);
}

}  // namespace
}  // namespace twin
