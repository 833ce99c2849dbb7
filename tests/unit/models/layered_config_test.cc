// A config.json of each family, of facts of its publisher, must give the shape of the preset, whose
// counts layered_presets_test.cc compares with the published totals.
#include "config/models/layered_config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <string_view>

#include "config/models/hf_config.h"
#include "core/input_error.h"
#include "core/model_names.h"
#include "core/model_presets.h"

namespace twin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Published {
  const char* preset;
  std::string text;  // of the config.json, without the outer braces
};
void PrintTo(const Published& published, std::ostream* out) { *out << published.preset; }

std::string Braced(const std::string& text) { return fmt::format("{{{}}}", text); }

std::string Frame(const char* type, int hidden, int layers, int vocab, int positions) {
  return fmt::format(R"("model_type": "{}", "dtype": "bfloat16", "hidden_size": {},
      "num_hidden_layers": {}, "vocab_size": {}, "max_position_embeddings": {}, )",
                     type, hidden, layers, vocab, positions);
}
std::string Heads(int query, int kv, int dim) {
  return fmt::format(R"("num_attention_heads": {}, "num_key_value_heads": {}, "head_dim": {}, )",
                     query, kv, dim);
}
std::string Latent(int heads, const char* query_rank, int nope, int value) {
  return fmt::format(R"("num_attention_heads": {}, "num_key_value_heads": {}, "q_lora_rank": {},
      "kv_lora_rank": 512, "qk_nope_head_dim": {}, "qk_rope_head_dim": 64, "v_head_dim": {}, )",
                     heads, heads, query_rank, nope, value);
}
std::string Experts(int dense, int experts, int top, int width, int shared) {
  return fmt::format(R"("intermediate_size": {}, "n_routed_experts": {},
      "num_experts_per_tok": {}, "moe_intermediate_size": {}, "n_shared_experts": {})",
                     dense, experts, top, width, shared);
}
constexpr const char* kFirst = R"(, "first_k_dense_replace": 1, "moe_layer_freq": 1)";
constexpr const char* kThree = R"(, "first_k_dense_replace": 3, "num_nextn_predict_layers": 1)";
constexpr const char* kModule = R"(, "num_nextn_predict_layers": 1)";
constexpr const char* kIndex =
    R"(, "index_n_heads": {}, "index_head_dim": 128, "index_topk": 2048)";

// A JSON list of `count` times `period`.
std::string List(int count, const std::string& period, const std::string& rest = "") {
  std::string list;
  for (int i = 0; i < count; ++i) list += (i > 0 ? ", " : "") + period;
  return "[" + list + (rest.empty() ? "" : ", " + rest) + "]";
}
const std::string kW = R"("sliding_attention")";
const std::string kF = R"("full_attention")";
const std::string kG = R"("linear_attention")";
const std::string kFiveAndFull = kW + "," + kW + "," + kW + "," + kW + "," + kW + "," + kF;
std::string Types(const std::string& list) { return R"("layer_types": )" + list + ", "; }

std::string GptOss(int layers, int experts) {
  return Frame("gpt_oss", 2880, layers, 201088, 131072) + Heads(64, 8, 64) +
         Types(List(layers / 2, kW + "," + kF)) +
         fmt::format(R"("sliding_window": 128, "attention_bias": true, "num_local_experts": {},
             "num_experts_per_tok": 4, "intermediate_size": 2880, "quantization_config":
             {{"quant_method": "mxfp4"}})",
                     experts);
}
std::string Llama4(int positions, int experts, int step) {
  return Frame("llama4_text", 5120, 48, 202048, positions) + Heads(40, 8, 128) +
         fmt::format(R"("attention_chunk_size": 8192, "num_local_experts": {},
             "num_experts_per_tok": 1, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
             "interleave_moe_layer_step": {}, "use_qk_norm": true, "no_rope_layers": [])",
                     experts, step);
}
std::string Gemma3(int hidden, int layers, int vocab, int positions, int window, int width) {
  return Frame("gemma3_text", hidden, layers, vocab, positions) +
         fmt::format(R"("sliding_window": {}, "sliding_window_pattern": 6,
             "intermediate_size": {}, )",
                     window, width);
}
std::string Delta(int value_heads) {
  return fmt::format(R"("linear_num_key_heads": 16, "linear_num_value_heads": {},
      "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4)",
                     value_heads);
}
std::string QwenExperts(int experts, int top, int width) {
  return fmt::format(R"(, "num_experts": {}, "num_experts_per_tok": {},
      "moe_intermediate_size": {}, "shared_expert_intermediate_size": {})",
                     experts, top, width, width);
}
std::string Nemotron(const char* pattern, int heads, int dim, int state, const std::string& rest) {
  return fmt::format(R"("hybrid_override_pattern": "{}", "mamba_num_heads": {},
      "mamba_head_dim": {}, "n_groups": 8, "ssm_state_size": {}, "conv_kernel": 4, {})",
                     pattern, heads, dim, state, rest);
}

std::vector<Published> LatentModels() {
  return {
      {"deepseek-v2-lite", Frame("deepseek_v2", 2048, 27, 102400, 163840) +
                               Latent(16, "null", 128, 128) + Experts(10944, 64, 6, 1408, 2) +
                               kFirst},
      {"moonlight-16b-a3b", Frame("deepseek_v3", 2048, 27, 163840, 8192) +
                                Latent(16, "null", 128, 128) + Experts(11264, 64, 6, 1408, 2) +
                                kFirst},
      {"deepseek-v2", Frame("deepseek_v2", 5120, 60, 102400, 163840) +
                          Latent(128, "1536", 128, 128) + Experts(12288, 160, 6, 1536, 2) + kFirst},
      {"deepseek-v3", Frame("deepseek_v3", 7168, 61, 129280, 163840) +
                          Latent(128, "1536", 128, 128) + Experts(18432, 256, 8, 2048, 1) + kThree},
      {"deepseek-v3.2", Frame("deepseek_v32", 7168, 61, 129280, 163840) +
                            Latent(128, "1536", 128, 128) + Experts(18432, 256, 8, 2048, 1) +
                            kThree + fmt::format(fmt::runtime(kIndex), 64)},
      {"kimi-k2", Frame("kimi_k2", 7168, 61, 163840, 131072) + Latent(64, "1536", 128, 128) +
                      Experts(18432, 384, 8, 2048, 1) + kFirst},
      {"kimi-k2.5", R"("model_type": "kimi_k25", "text_config": {)" +
                        Frame("kimi_k2", 7168, 61, 163840, 262144) + Latent(64, "1536", 128, 128) +
                        Experts(18432, 384, 8, 2048, 1) + kFirst + "}"},
      {"glm-4.7-flash", Frame("glm4_moe_lite", 2048, 47, 154880, 202752) +
                            Latent(20, "768", 192, 256) + Experts(10240, 64, 4, 1536, 1) + kFirst +
                            kModule},
      {"glm-5", Frame("glm_moe_dsa", 6144, 78, 154880, 202752) + Latent(64, "2048", 192, 256) +
                    Experts(12288, 256, 8, 2048, 1) + kThree +
                    fmt::format(fmt::runtime(kIndex), 32)},
      {"glm-5.2", Frame("glm_moe_dsa", 6144, 78, 154880, 1048576) + Latent(64, "2048", 192, 256) +
                      Experts(12288, 256, 8, 2048, 1) + kThree +
                      fmt::format(fmt::runtime(kIndex), 32) + R"(, "indexer_types": ["full",
                      "full", )" +
                      List(19, R"("full", "shared", "shared", "shared")").substr(1)},
      {"longcat-flash-chat",
       R"("num_layers": 28, "model_type": "longcat_flash", "dtype": "bfloat16", "hidden_size": 6144,
          "vocab_size": 131072, "max_position_embeddings": 131072, )" +
           Latent(64, "1536", 128, 128) +
           R"("ffn_hidden_size": 12288, "expert_ffn_hidden_size": 2048, "n_routed_experts": 512,
           "zero_expert_num": 256, "moe_topk": 12)"},
      {"kimi-linear-48b-a3b",
       Frame("kimi_linear", 2304, 27, 163840, 1048576) + Latent(32, "null", 128, 128) +
           R"("intermediate_size": 9216, "num_experts": 256, "num_experts_per_token": 8,
           "moe_intermediate_size": 1024, "num_shared_experts": 1, "first_k_dense_replace": 1,
           "linear_attn_config": {"num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4,
           "full_attn_layers": [4, 8, 12, 16, 20, 24, 27]})"},
  };
}

std::vector<Published> MixtureModels() {
  return {
      {"glm-4.5", Frame("glm4_moe", 5120, 92, 151552, 131072) + Heads(96, 8, 128) +
                      R"("attention_bias": true, "use_qk_norm": true, )" +
                      Experts(12288, 160, 8, 1536, 1) + kThree},
      {"glm-4.5-air", Frame("glm4_moe", 4096, 46, 151552, 131072) + Heads(96, 8, 128) +
                          R"("attention_bias": true, "use_qk_norm": false, )" +
                          Experts(10944, 128, 8, 1408, 1) + kFirst + kModule},
      {"dots.llm1", Frame("dots1", 4096, 62, 152064, 32768) + Heads(32, 32, 128) +
                        Experts(10944, 128, 6, 1408, 2) + kFirst},
      {"solar-open-100b", Frame("solar_open", 4096, 48, 196608, 131072) + Heads(64, 8, 128) +
                              Experts(10240, 128, 8, 1280, 1)},
      {"minimax-m2",
       Frame("minimax_m2", 3072, 62, 200064, 196608) + Heads(48, 8, 128) +
           R"("use_qk_norm": true, "qk_norm_type": "per_layer", "num_local_experts": 256,
           "num_experts_per_tok": 8, "intermediate_size": 1536, "shared_intermediate_size": 0,
           "attn_type_list": )" +
           List(62, "1")},
      {"hunyuan-a13b",
       Frame("hunyuan_v1_moe", 4096, 32, 128167, 262144) + Heads(32, 8, 128) +
           R"("use_qk_norm": true, "num_experts": 64, "intermediate_size": 3072, "moe_topk": )" +
           List(32, "8") + R"(, "moe_intermediate_size": )" + List(32, "3072") +
           R"(, "num_shared_expert": )" + List(32, "1")},
      {"gpt-oss-20b", GptOss(24, 32)},
      {"gpt-oss-120b", GptOss(36, 128)},
      {"llama-4-scout", Llama4(10485760, 16, 1)},
      {"llama-4-maverick", Llama4(1048576, 128, 2)},
      {"mimo-v2-flash",
       Frame("mimo_v2_flash", 4096, 48, 152576, 262144) + Heads(64, 4, 192) +
           R"("v_head_dim": 128, "swa_num_key_value_heads": 8, "sliding_window": 128,
           "add_swa_attention_sink_bias": true, "n_shared_experts": null,
           "intermediate_size": 16384,
           "n_routed_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 2048,
           "hybrid_layer_pattern": [0, )" +
           List(7, "1, 1, 1, 1, 0, 1", "1, 1, 1, 1, 0").substr(1) + R"(, "moe_layer_freq": [0, )" +
           List(47, "1").substr(1)},
      {"phi-3.5-moe", Frame("phimoe", 4096, 32, 32064, 131072) + Heads(32, 8, 128) +
                          R"("attention_bias": true, "num_local_experts": 16,
                          "num_experts_per_tok": 2, "intermediate_size": 6400)"},
  };
}

std::vector<Published> RecurrentModels() {
  return {
      {"qwen3-next-80b-a3b", Frame("qwen3_next", 2048, 48, 151936, 262144) + Heads(16, 2, 256) +
                                 R"("full_attention_interval": 4, )" + Delta(32) +
                                 QwenExperts(512, 10, 512) + kModule},
      {"qwen3.5-397b-a17b", R"("model_type": "qwen3_5_moe", "text_config": {)" +
                                Frame("qwen3_5_moe_text", 4096, 60, 248320, 262144) +
                                Heads(32, 2, 256) +
                                Types(List(15, kG + "," + kG + "," + kG + "," + kF)) + Delta(64) +
                                QwenExperts(512, 10, 1024) + R"(, "mtp_num_hidden_layers": 1})"},
      {"qwen3.5-27b", Frame("qwen3_5_text", 5120, 64, 248320, 262144) + Heads(24, 4, 256) +
                          R"("intermediate_size": 17408, "mtp_num_hidden_layers": 1, )" +
                          Delta(48)},
      {"nemotron-3-nano-30b-a3b",
       Frame("nemotron_h", 2688, 52, 131072, 262144) + Heads(32, 2, 128) +
           Nemotron("MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", 64, 64, 128,
                    R"("n_routed_experts": 128, "num_experts_per_tok": 6,
                    "moe_intermediate_size": 1856, "n_shared_experts": 1,
                    "moe_shared_expert_intermediate_size": 3712)")},
      {"nemotron-nano-9b-v2",
       Frame("nemotron_h", 4480, 56, 131072, 131072) + Heads(40, 8, 128) +
           Nemotron("M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-", 128, 80, 128,
                    R"("intermediate_size": 15680)")},
      {"granite-4.0-h-small",
       Frame("granitemoehybrid", 4096, 40, 100352, 131072) + Heads(32, 8, 128) +
           Types(List(4, R"("mamba", "mamba", "mamba", "mamba", "mamba", "attention", "mamba",
                            "mamba", "mamba", "mamba")")) +
           R"("mamba_n_heads": 128, "mamba_d_head": 64, "mamba_n_groups": 1, "mamba_d_state": 128,
           "mamba_d_conv": 4, "num_local_experts": 72, "num_experts_per_tok": 10,
           "intermediate_size": 768, "shared_intermediate_size": 1536)"},
      {"minimax-text-01", Frame("minimax_text_01", 6144, 80, 200064, 10240000) + Heads(64, 8, 128) +
                              R"("num_local_experts": 32, "num_experts_per_tok": 2,
                              "intermediate_size": 9216, "attn_type_list": )" +
                              List(10, "0, 0, 0, 0, 0, 0, 0, 1")},
  };
}

std::vector<Published> WindowModels() {
  const std::string near = R"("sliding_window": 4096, )";
  return {
      {"gemma-3-1b", Gemma3(1152, 26, 262144, 32768, 512, 6912) + R"("num_attention_heads": 4,
          "num_key_value_heads": 1, "head_dim": 256)"},
      {"gemma-3-27b", Gemma3(5376, 62, 262208, 131072, 1024, 21504) +
                          R"("num_attention_heads": 32, "num_key_value_heads": 16,
          "head_dim": 128)"},
      {"gemma-4-31b", Frame("gemma4_text", 5376, 60, 262144, 262144) + Heads(32, 16, 256) +
                          Types(List(10, kFiveAndFull)) + R"("sliding_window": 1024,
          "global_head_dim": 512, "num_global_key_value_heads": 4, "attention_k_eq_v": true,
          "intermediate_size": 21504)"},
      {"gemma-4-26b-a4b", Frame("gemma4_text", 2816, 30, 262144, 262144) + Heads(16, 8, 256) +
                              Types(List(5, kFiveAndFull)) + R"("sliding_window": 1024,
          "global_head_dim": 512, "num_global_key_value_heads": 2, "attention_k_eq_v": true,
          "enable_moe_block": true, "num_experts": 128, "top_k_experts": 8,
          "moe_intermediate_size": 704, "intermediate_size": 2112)"},
      {"command-r7b-12-2024", Frame("cohere2", 4096, 32, 256000, 132096) + Heads(32, 8, 128) +
                                  near + R"("intermediate_size": 14336)"},
      {"exaone-4.0-32b", Frame("exaone4", 5120, 64, 102400, 131072) + Heads(40, 8, 128) + near +
                             R"("intermediate_size": 27392, "sliding_window_pattern": "LLLG")"},
      {"olmo-3-7b", Frame("olmo3", 4096, 32, 100278, 65536) + Heads(32, 32, 128) + near +
                        R"("intermediate_size": 11008)"},
      {"smollm3-3b", Frame("smollm3", 2048, 36, 128256, 65536) + Heads(16, 4, 128) +
                         R"("intermediate_size": 11008)"},
      {"seed-oss-36b", Frame("seed_oss", 5120, 64, 155136, 524288) + Heads(80, 8, 128) +
                           R"("intermediate_size": 27648)"},
  };
}

class PublishedConfigTest : public ::testing::TestWithParam<Published> {};

TEST_P(PublishedConfigTest, IsReadAsItsPreset) {
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

INSTANTIATE_TEST_SUITE_P(Latent, PublishedConfigTest, ::testing::ValuesIn(LatentModels()));
INSTANTIATE_TEST_SUITE_P(Mixture, PublishedConfigTest, ::testing::ValuesIn(MixtureModels()));
INSTANTIATE_TEST_SUITE_P(Recurrent, PublishedConfigTest, ::testing::ValuesIn(RecurrentModels()));
INSTANTIATE_TEST_SUITE_P(Window, PublishedConfigTest, ::testing::ValuesIn(WindowModels()));

TEST(LayeredConfigTest, ReadsFormatsOfFp8AndMxfp4) {
  EXPECT_EQ(ParseHfConfig(Braced(GptOss(24, 32)), "f").shape.formats,
            ModelPreset("gpt-oss-20b").formats);
}

struct Damaged {
  std::string text;
  const char* message;
};

std::string GptOssWith(const std::string& fields) {
  return Frame("gpt_oss", 2880, 2, 201088, 131072) + Heads(64, 8, 64) +
         R"("intermediate_size": 2880, )" + fields;
}

TEST(LayeredConfigTest, DamageIsRefusedWithFieldAndAllowedValues) {
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
