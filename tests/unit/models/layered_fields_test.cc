// Fields of files whose layers differ: those that are read, and those that are refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "config/models/hf_config.h"
#include "config/models/model_names.h"
#include "core/input_error.h"
#include "tests/unit/models/config_text.h"

namespace twin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(LayeredFieldsTest, ReadsFormatsOfFp8AndMxfp4) {
  EXPECT_EQ(ParseHfConfig(Braced(GptOss(24, 32)), "f").shape.formats,
            ModelPreset("gpt-oss-20b").formats);
}

ModelSpec ReadShape(const std::string& text) {
  return ParseHfConfig(Braced(text), "config.json").shape;
}

std::string Glm52(const std::string& rest) {
  return Frame("glm_moe_dsa", 6144, 78, 154880, 1048576) + Latent(64, "2048", 192, 256) +
         Experts(12288, 256, 8, 2048, 1) + kThree + fmt::format(fmt::runtime(kIndex), 32) +
         R"(, "indexer_types": ["full", "full", )" +
         List(19, R"("full", "shared", "shared", "shared")").substr(1) + rest;
}

// The file of GLM-5.2 says the kinds of its layers and its experts twice.
TEST(LayeredFieldsTest, FactsMayBeSaidTwice) {
  const std::string sparse = R"("deepseek_sparse_attention")";
  const ModelSpec twice = ReadShape(Glm52(
      R"(, "moe_layer_freq": 1, "num_experts": 256, "layer_types": )" + List(78, sparse) +
      R"(, "mlp_layer_types": ["dense", "dense", "dense", )" + List(75, R"("sparse")").substr(1)));
  EXPECT_TRUE(twice.groups == ReadShape(Glm52("")).groups);
}

std::string Nemotron3(const std::string& rest) {
  return R"("model_type": "nemotron_h", "hidden_size": 2688, "vocab_size": 131072,
      "max_position_embeddings": 262144, )" +
         Heads(32, 2, 128) +
         R"("mamba_num_heads": 64, "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128,
      "conv_kernel": 4, "n_routed_experts": 128, "num_experts_per_tok": 6, "n_shared_experts": 1,
      "moe_intermediate_size": 1856, "moe_shared_expert_intermediate_size": 3712, )" +
         rest;
}

// Nemotron-3-Ultra spells its layers out and leaves out their number; its module is attention and a
// mixture.
TEST(LayeredFieldsTest, NemotronsLayersAndModuleMaySpellTheirKinds) {
  const ModelSpec letters =
      ReadShape(Nemotron3(R"("num_hidden_layers": 4, "hybrid_override_pattern": "M*ME")"));
  const ModelSpec spelt = ReadShape(Nemotron3(
      R"("layers_block_type": ["mamba", "attention", "mamba", "moe"],
      "num_nextn_predict_layers": 1, "mtp_layers_block_type": ["attention", "moe"])"));
  EXPECT_TRUE(spelt.groups == letters.groups);
  EXPECT_FALSE(letters.mtp_layer.has_value());
  ASSERT_TRUE(spelt.mtp_layer.has_value());
  EXPECT_EQ(spelt.mtp_layer->query_heads, 32);
  EXPECT_EQ(spelt.mtp_layer->moe.experts, 128);
  EXPECT_EQ(spelt.mtp_layer->norms_per_layer, 2);
  EXPECT_NO_THROW(Validate(spelt));
}

TEST(LayeredFieldsTest, ATextPartMayLeaveItsTypeToTheWhole) {
  const std::string part = R"("hidden_size": 512, "num_hidden_layers": 2, "vocab_size": 1000,
      "max_position_embeddings": 1000, "intermediate_size": 1024, )" +
                           Heads(4, 4, 128);
  EXPECT_EQ(ReadShape(R"("model_type": "olmo2", "text_config": {)" + part + R"("seed": 1})"),
            ReadShape(R"("model_type": "olmo2", )" + part + R"("seed": 1)"));
}

struct Damaged {
  std::string text;
  const char* message;
};

std::string GptOssWith(const std::string& fields) {
  return Frame("gpt_oss", 2880, 2, 201088, 131072) + Heads(64, 8, 64) +
         R"("intermediate_size": 2880, )" + fields;
}

// Two blocks, the second one with these fields in place of those of Block().
std::string Nas(const std::string& attention, const std::string& mlp) {
  return Frame("nemotron-nas", 512, 2, 1000, 1000) + R"("num_attention_heads": 4,
      "block_configs": [)" +
         Block(4, 1) +
         fmt::format(
             R"(, {{"attention": {{{}}}, "ffn": {{{}}}}}])",
             attention.empty() ? R"("no_op": true)" : R"("n_heads_in_group": 4, )" + attention,
             mlp.empty() ? R"("no_op": true)" : R"("ffn_mult": 1, )" + mlp);
}

std::string Step(const std::string& fields) {
  return Frame("step3p5", 512, 2, 1000, 1000) + Heads(4, 4, 128) +
         R"("sliding_window": 128, "intermediate_size": 1024, "moe_num_experts": 4,
         "moe_top_k": 2, "moe_intermediate_size": 256, "share_expert_dim": 256,
         "layer_types": ["full_attention", "sliding_attention"], )" +
         fields;
}

std::string MiniMaxM3(const std::string& index) {
  return Frame("minimax_m3", 512, 2, 1000, 1000) + Heads(4, 4, 128) +
         R"("intermediate_size": 256, "dense_intermediate_size": 1024, "num_local_experts": 4,
         "num_experts_per_tok": 2, "sparse_attention_config": {"sparse_num_index_heads": 4,
         "sparse_index_dim": 128, "sparse_topk_blocks": 16, "sparse_block_size": 128, )" +
         index + "}";
}

// Embedding and head are 1,000 x 512 each; the first block has 4 query heads and a KV head of 128
// and an MLP of 512 x 2 / 3, rounded up to 512; a matrix in place of attention or MLP has a norm,
// too.
TEST(LayeredFieldsTest, AMatrixInPlaceOfAttentionOrMlpIsCounted) {
  const std::string linear = R"("replace_with_linear": true)";
  const auto parameters = [](const std::string& attention, const std::string& mlp) {
    return TotalParameters(ParseHfConfig(Braced(Nas(attention, mlp)), "config.json").shape);
  };
  const std::int64_t first = 2 * 512 * (512 + 128) + 3 * 512 * 512 + 2 * 512;
  const std::int64_t empty = 2 * 1000 * 512 + 512 + first;
  EXPECT_EQ(parameters("", ""), empty);
  EXPECT_EQ(parameters(linear, ""), empty + 512 * 512 + 512);
  EXPECT_EQ(parameters(linear, linear), empty + 2 * (512 * 512 + 512));
}

// Step's lists go on with the layers of its modules, of which the first is read.
TEST(LayeredFieldsTest, AListMayGoOnWithTheLayersOfModules) {
  const std::string text =
      Frame("step3p5", 512, 2, 1000, 1000) + Heads(4, 4, 128) +
      R"("sliding_window": 128, "intermediate_size": 1024, "moe_num_experts": 4, "moe_top_k": 2,
      "moe_intermediate_size": 256, "share_expert_dim": 256, "moe_layers_enum": "1",
      "num_nextn_predict_layers": 1, "attention_other_setting": {"num_attention_heads": 8},
      "layer_types": ["full_attention", "sliding_attention", "sliding_attention"])";
  const ModelSpec model = ParseHfConfig(Braced(text), "config.json").shape;
  EXPECT_EQ(model.layers, 2);
  ASSERT_TRUE(model.mtp_layer.has_value());
  EXPECT_EQ(model.mtp_layer->query_heads, 8);
  EXPECT_EQ(model.mtp_layer->sliding_window, 128);
  EXPECT_EQ(model.mtp_layer->moe.experts, 0);
}

TEST(LayeredFieldsTest, DamageIsRefusedWithFieldAndAllowedValues) {
  const std::string experts = R"("num_local_experts": 4, "num_experts_per_tok": 2)";
  const std::string window = R"(, "sliding_window": 128)";
  const Damaged all[] = {
      {GptOssWith(experts + window + R"(, "layer_types": ["full_attention"])"),
       "layer_types has 1 items, must have 2, one a layer"},
      {GptOssWith(experts + window + R"(, "layer_types": ["full_attention", "wave"])"),
       "layer_types[1] is \"wave\", must be one of full_attention, sliding_attention"},
      {GptOssWith(experts), "sliding_window is missing, must be a positive integer"},
      {GptOssWith(R"("num_local_experts": 4, "num_experts_per_tok": 5)"),
       "num_experts_per_tok 5 exceeds num_local_experts 4"},
      {GptOssWith(experts + window + R"(, "kv_lora_rank": 512)"),
       "kv_lora_rank is 512, which is not known for this model_type"},
      {Frame("nemotron_h", 4480, 3, 1000, 1000) + R"("hybrid_override_pattern": "M-")",
       "hybrid_override_pattern has 2 letters, must have 3"},
      {Frame("qwen3_next", 2048, 4, 1000, 1000) + Heads(16, 2, 256) +
           R"("full_attention_interval": 4, "mamba_ssm_dtype": "int8", )" + Delta(32),
       "mamba_ssm_dtype is int8, must be float32, bfloat16 or float16"},
      {Nas(R"("window_length": 8192)", ""),
       "block_configs[1]: attention: window_length is 8192, which is not known"},
      {Nas("", R"("moe": {"experts": 4})"),
       R"(block_configs[1]: ffn: moe is {"experts":4}, which is not known)"},
      {Nas(R"("n_heads_in_group": 3)", ""),
       "block_configs[1]: attention: n_heads_in_group is 3, must divide num_attention_heads 4"},
      {Nas("", R"("ffn_mult": null)"), "block_configs[1]: ffn: ffn_mult is missing"},
      {Frame("nemotron-nas", 512, 3, 1000, 1000) + R"("num_attention_heads": 4, )" +
           Blocks({{2, 4, 1.0}}),
       "block_configs has 2 items, must have 3, one a layer"},
      {Frame("ernie4_5_moe", 512, 2, 1000, 1000) + R"("use_bias": true)",
       "use_bias is true, must be false"},
      {Frame("ernie4_5_moe", 512, 2, 1000, 1000) + R"("num_attention_heads": 4)",
       "moe_num_shared_experts is missing"},
      {Frame("bailing_moe", 512, 2, 1000, 1000) + Heads(4, 4, 128) + Ling(1024, 8, 2, 256, 1, 0) +
           R"(, "layer_group_size": 4)",
       "layer_group_size is 4, which is not known for this model_type"},
      {Frame("bailing_moe", 512, 2, 1000, 1000) + Heads(4, 4, 128) + Ling(1024, 8, 2, 256, 1, 0) +
           R"(, "router_type": "MultiRouter")",
       "router_type is MultiRouter, must be topN"},
      {Glm52(R"(, "num_experts": 128)"), "num_experts is not n_routed_experts"},
      {Nemotron3(R"("num_hidden_layers": 1, "hybrid_override_pattern": "M",
       "num_nextn_predict_layers": 1, "mtp_hybrid_override_pattern": "M*")"),
       "the module of multi-token prediction has layers M*, must be *E"},
      {Frame("mimo_v2_flash", 512, 2, 1000, 1000) + Heads(4, 4, 128) +
           R"("sliding_window": 128, "attention_chunk_size": 64)",
       "attention_chunk_size is not sliding_window"},
      {Frame("bailing_hybrid", 512, 2, 1000, 1000) + R"("layer_group_size": 2)",
       "short_conv_kernel_size is missing"},
      {Step(R"("moe_layers_enum": "1,x")"), "moe_layers_enum has 'x', must be layers from 0 to 1"},
      {Step(R"("moe_layers_enum": "1,2")"), "moe_layers_enum has '2', must be layers from 0 to 1"},
      {Step(R"("moe_layers_enum": "1", "attention_other_setting": {"rope": 1})"),
       "attention_other_setting: rope is 1, which is not known"},
      {MiniMaxM3(R"("sparse_attention_freq": [1])"),
       "sparse_attention_config: sparse_attention_freq has 1 items, must have 2, one a layer"},
      {MiniMaxM3(R"("sparse_attention_freq": [0, 1], "sparse_disable_index_value": [0, 0])"),
       "sparse_disable_index_value[1] is 0, must be 1 in layers with sparse attention"},
      {MiniMaxM3(R"("sparse_attention_freq": [0, 1], "sparse_window": 7)"),
       "sparse_attention_config: sparse_window is 7, which is not known"},
      {R"("model_type": "deepseek_v4")", "model_type deepseek_v4 is refused: compressed keys"},
      {R"("model_type": "jamba")", "model_type jamba is refused: Mamba-1"},
      {R"("model_type": "mllama")", "cross-attention is not modelled"},
      {R"("model_type": "t5")", "encoders are not modelled"},
  };
  for (const Damaged& damaged : all) {
    EXPECT_THAT(
        [&] { ParseHfConfig(Braced(damaged.text), "config.json"); },
        ThrowsMessage<InputError>(AllOf(HasSubstr("config.json"), HasSubstr(damaged.message))));
  }
}

}  // namespace
}  // namespace twin
