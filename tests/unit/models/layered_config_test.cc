// A config.json in another form than that of a preset must give the shape of the preset: fields
// that say the same, that are left out for their defaults or that change nothing, the names and
// places of fields of multimodal files.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "config/models/hf_config.h"
#include "config/models/model_names.h"
#include "tests/unit/models/config_text.h"

namespace twin {
namespace {

struct OtherForm {
  const char* preset;
  std::string text;  // of the config.json, without the outer braces
};
void PrintTo(const OtherForm& form, std::ostream* out) { *out << form.preset; }

std::vector<OtherForm> OtherForms() {
  const std::string three = "0, 0, 0, ";
  return {
      {"deepseek-v2-lite", Frame("deepseek_v2", 2048, 27, 102400, 163840) +
                               Latent(16, "null", 128, 128) + Experts(10944, 64, 6, 1408, 2) +
                               kFirst},
      {"kimi-linear-48b-a3b",
       Frame("kimi_linear", 2304, 27, 163840, 1048576) + Latent(32, "null", 128, 128) +
           R"("intermediate_size": 9216, "num_experts": 256, "num_experts_per_token": 8,
           "moe_intermediate_size": 1024, "num_shared_experts": 1, "first_k_dense_replace": 1,
           "linear_attn_config": {"num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4,
           "full_attn_layers": [4, 8, 12, 16, 20, 24, 27]})"},
      {"minimax-m2",
       Frame("minimax_m2", 3072, 62, 200064, 196608) + Heads(48, 8, 128) +
           R"("use_qk_norm": true, "qk_norm_type": "per_layer", "num_local_experts": 256,
           "num_experts_per_tok": 8, "intermediate_size": 1536, "shared_intermediate_size": 0,
           "attn_type_list": )" +
           List(62, "1")},
      {"ernie-4.5-21b-a3b", Frame("ernie4_5_moe", 2560, 28, 103424, 131072) +
                                R"("num_attention_heads": 20, "num_key_value_heads": 4,
                                "intermediate_size": 12288, )" +
                                Ernie(64, 6, 1536, 2, 1, -1)},
      {"minimax-m3", R"("model_type": "minimax_m3_vl", "text_config": {)" +
                         Frame("minimax_m3", 6144, 60, 200064, 1048576) + Heads(64, 4, 128) +
                         R"("intermediate_size": 3072, "dense_intermediate_size": 12288,
           "shared_intermediate_size": 3072, "n_shared_experts": 1, "num_local_experts": 128,
           "num_experts_per_tok": 4, "use_qk_norm": true, "qk_norm_type": "per_head",
           "use_routing_bias": true, "attention_output_gate": false, "num_mtp_modules": 1,
           "moe_layer_freq": [)" +
                         three + List(57, "1").substr(1) + R"(, "sparse_attention_config": {
           "use_sparse_attention": true, "sparse_index_dim": 128, "sparse_num_index_heads": 4,
           "sparse_topk_blocks": 16, "sparse_block_size": 128, "sparse_score_type": "max",
           "sparse_init_block": 0, "sparse_local_block": 1, "sparse_disable_index_value": [)" +
                         three + List(57, "1").substr(1) + R"(, "sparse_attention_freq": [)" +
                         three + List(57, "1").substr(1) + "}}"},
      {"qwen3-vl-235b-a22b-instruct",
       R"("model_type": "qwen3_vl_moe", "text_config": {)" +
           Frame("qwen3_vl_moe_text", 4096, 94, 151936, 262144) + Heads(64, 4, 128) +
           R"("attention_bias": false, "decoder_sparse_step": 1, "mlp_only_layers": [],
           "intermediate_size": 12288, "num_experts": 128, "num_experts_per_tok": 8,
           "moe_intermediate_size": 1536})"},
      {"glm-4.6v", R"("model_type": "glm4v_moe", "text_config": {)" +
                       Frame("glm4v_moe_text", 4096, 46, 151552, 131072) + Heads(96, 8, 128) +
                       R"("attention_bias": true, )" + Experts(10944, 128, 8, 1408, 1) + kFirst +
                       kModule + "}"},
      {"qwen3.5-397b-a17b", R"("model_type": "qwen3_5_moe", "text_config": {)" +
                                Frame("qwen3_5_moe_text", 4096, 60, 248320, 262144) +
                                Heads(32, 2, 256) +
                                Types(List(15, kG + "," + kG + "," + kG + "," + kF)) + Delta(64) +
                                QwenExperts(512, 10, 1024) +
                                R"(, "mamba_ssm_dtype": "float32", "mtp_num_hidden_layers": 1})"},
      {"nemotron-nano-12b-v2",
       Frame("nemotron_h", 5120, 62, 131072, 131072) +
           R"("num_attention_heads": 40, "num_key_value_heads": 8, "attention_head_dim": 128, )" +
           Nemotron("M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M-", 128, 80, 128,
                    R"("intermediate_size": 20480)")},
      {"command-r7b-12-2024", Frame("cohere2", 4096, 32, 256000, 132096) + Heads(32, 8, 128) +
                                  R"("sliding_window": 4096, "intermediate_size": 14336)"},
      {"olmo-3-7b", Frame("olmo3", 4096, 32, 100278, 65536) + Heads(32, 32, 128) +
                        R"("sliding_window": 4096, "intermediate_size": 11008)"},
      {"seed-oss-36b", Frame("seed_oss", 5120, 64, 155136, 524288) + Heads(80, 8, 128) +
                           R"("intermediate_size": 27648)"},
      // Rows of the published block_configs, as runs of equal ones.
      {"llama-3.3-nemotron-super-49b",
       Frame("nemotron-nas", 8192, 80, 128256, 131072) + R"("num_attention_heads": 64, )" +
           Blocks({{1, 8, 2.625},  {5, 8, 5.25},   {2, 0, 2.625},  {3, 8, 5.25},   {1, 0, 3.28125},
                   {30, 8, 5.25},  {1, 0, 1.3125}, {2, 0, 2.625},  {1, 0, 1.3125}, {1, 0, 5.25},
                   {1, 0, 1.3125}, {1, 0, 2.625},  {3, 0, 1.3125}, {1, 8, 5.25},   {1, 0, 1.3125},
                   {2, 0, 1.0},    {1, 0, 1.3125}, {3, 0, 1.0},    {2, 0, 1.3125}, {2, 0, 0.5},
                   {2, 0, 1.0},    {2, 0, 0.5},    {1, 0, 1.0},    {2, 0, 0.5},    {9, 8, 5.25}})},
  };
}

class OtherFormTest : public ::testing::TestWithParam<OtherForm> {};

TEST_P(OtherFormTest, IsReadAsItsPreset) {
  ModelSpec preset = ModelPreset(GetParam().preset);
  ModelSpec read = ParseHfConfig(Braced(GetParam().text), "config.json").shape;
  EXPECT_EQ(TotalParameters(read), TotalParameters(preset));
  EXPECT_EQ(ActiveParameters(read), ActiveParameters(preset));
  EXPECT_EQ(CachedBytes(read, {}, 0), CachedBytes(preset, {}, 0));
  read.name = preset.name;
  preset.formats = read.formats;
  preset.weight_dtype = read.weight_dtype;
  EXPECT_TRUE(read == preset);
  Validate(read);
}

// The total of the class of transformers: 32 layers of 207,070,080, the embedding of 295,469,056,
// which the head shares, and the last norm. All query heads share one head of keys, and attention
// and MLP one norm.
TEST(FalconConfigTest, SmallModelsShareKeysAndNorms) {
  const ModelSpec falcon =
      ParseHfConfig(
          R"({"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32, "bias": false,
          "num_attention_heads": 71, "multi_query": true, "parallel_attn": true,
          "vocab_size": 65024})",
          "config.json")
          .shape;
  EXPECT_EQ(TotalParameters(falcon), 6'921'720'704LL);
  EXPECT_EQ(falcon.kv_heads, 1);
  EXPECT_EQ(falcon.max_position, 2048);
}

INSTANTIATE_TEST_SUITE_P(All, OtherFormTest, ::testing::ValuesIn(OtherForms()));

}  // namespace
}  // namespace twin
