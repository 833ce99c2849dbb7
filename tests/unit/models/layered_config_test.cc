// A config.json of each family, of facts of its publisher, must give the shape of the preset, whose
// counts layered_presets_test.cc compares with the published totals.
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

struct Published {
  const char* preset;
  std::string text;  // of the config.json, without the outer braces
};
void PrintTo(const Published& published, std::ostream* out) { *out << published.preset; }

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
      {"kimi-k3", R"("model_type": "kimi_k3", "text_config": {)" +
                      Frame("kimi_linear", 7168, 93, 163840, 1048576) +
                      Latent(96, "1536", 128, 128) +
                      R"("intermediate_size": 33792, "num_experts": 896,
           "num_experts_per_token": 16, "moe_intermediate_size": 3072, "num_shared_experts": 2,
           "routed_expert_hidden_size": 3584, "first_k_dense_replace": 1, "moe_layer_freq": 1,
           "mla_use_output_gate": true, "attn_res_block_size": 12,
           "linear_attn_config": {"num_heads": 96, "head_dim": 128, "short_conv_kernel_size": 4,
           "use_full_rank_gate": true, "full_attn_layers": [4, 8, 12, 16, 20, 24, 28, 32, 36, 40,
           44, 48, 52, 56, 60, 64, 68, 72, 76, 80, 84, 88, 92, 93]}})"},
      {"mistral-small-4-119b",
       R"("model_type": "mistral3", "text_config": {)" +
           Frame("mistral4", 4096, 36, 131072, 1048576) +
           R"("num_attention_heads": 32, "num_key_value_heads": 32, "q_lora_rank": 1024,
           "kv_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 64,
           "v_head_dim": 128, "attention_bias": false, "first_k_dense_replace": 0, )" +
           Experts(12288, 128, 4, 2048, 1) + "}"},
      {"ling-3.0-flash", Frame("bailing_hybrid", 2560, 42, 157184, 262144) +
                             Latent(32, "null", 128, 128) +
                             R"("head_dim": 128, "layer_group_size": 6, "short_conv_kernel_size": 4,
           "no_kda_lora": true, "gated_attention_proj_granularity_type": "head_wise",
           "use_qk_norm": true, "use_bias": false, "intermediate_size": 6144,
           "num_experts": 512, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
           "moe_shared_expert_intermediate_size": 768, "num_shared_experts": 1,
           "moe_router_enable_expert_bias": true, "first_k_dense_replace": 2)"},
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

std::vector<Published> RoutedModels() {
  const std::string three = "0, 0, 0, ";
  return {
      {"ernie-4.5-21b-a3b", Frame("ernie4_5_moe", 2560, 28, 103424, 131072) +
                                R"("num_attention_heads": 20, "num_key_value_heads": 4,
                                "intermediate_size": 12288, )" +
                                Ernie(64, 6, 1536, 2, 1, -1)},
      {"ernie-4.5-300b-a47b", Frame("ernie4_5_moe", 8192, 54, 103424, 131072) +
                                  R"("num_attention_heads": 64, "num_key_value_heads": 8,
                                "intermediate_size": 28672, "tie_word_embeddings": true, )" +
                                  Ernie(64, 8, 3584, 0, 3, 53)},
      {"ling-lite-1.5", Frame("bailing_moe", 2048, 28, 126464, 32768) +
                            R"("num_attention_heads": 16, "num_key_value_heads": 4, )" +
                            Ling(1408, 64, 6, 1408, 2, 0)},
      {"ling-plus", Frame("bailing_moe", 5376, 88, 126464, 16384) +
                        R"("num_attention_heads": 42, "num_key_value_heads": 6, )" +
                        Ling(12288, 64, 4, 3072, 1, 0)},
      {"ling-mini-2.0", Frame("bailing_moe", 2048, 20, 157184, 32768) + Heads(16, 4, 128) +
                            Ling(5120, 256, 8, 512, 1, 1) + kLing2 +
                            R"(, "moe_shared_expert_intermediate_size": 512)"},
      {"ling-flash-2.0", Frame("bailing_moe_v2", 4096, 32, 157184, 32768) + Heads(32, 4, 128) +
                             Ling(9216, 256, 8, 1024, 1, 1) + kLing2},
      {"ling-1t", Frame("bailing_moe", 8192, 80, 157184, 32768) + Heads(64, 8, 128) +
                      Ling(18432, 256, 8, 2048, 1, 4) + kLing2},
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
      {"step-3",
       R"("model_type": "step3_vl", "text_config": {"model_type": "step3_text", "dtype": "bfloat16",
           "hidden_size": 7168, "num_hidden_layers": 61, "vocab_size": 128815,
           "max_position_embedding": 65536, "num_attention_heads": 64, "num_attention_groups": 1,
           "head_dim": 256, "share_q_dim": 2048, "intermediate_size": 18432,
           "moe_num_experts": 48, "moe_top_k": 3, "moe_intermediate_size": 5120,
           "share_expert_dim": 5120, "moe_layers_enum": [)" +
           Numbers(4, 59) + "]}"},
      {"step-3.7-flash",
       R"("model_type": "step3p7", "text_config": {)" + Frame("step3p5", 4096, 45, 128896, 65536) +
           R"("num_attention_heads": 64, "num_attention_groups": 8, "head_dim": 128,
           "sliding_window": 512, "attention_other_setting": {"attention_type":
           "sliding_attention", "num_attention_heads": 96, "num_attention_groups": 8,
           "head_dim": 128}, "use_head_wise_attn_gate": true, "intermediate_size": 11264,
           "moe_num_experts": 288, "moe_top_k": 8, "moe_intermediate_size": 1280,
           "share_expert_dim": 1280, "use_moe_router_bias": true, "moe_layers_enum": ")" +
           Numbers(3, 44) + "\"," + Types(List(11, kF + "," + kW + "," + kW + "," + kW, kF)) +
           R"("need_fp32_gate": true})"},
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
                                QwenExperts(512, 10, 1024) +
                                R"(, "mamba_ssm_dtype": "float32", "mtp_num_hidden_layers": 1})"},
      {"qwen3.5-27b", Frame("qwen3_5_text", 5120, 64, 248320, 262144) + Heads(24, 4, 256) +
                          R"("intermediate_size": 17408, "mamba_ssm_dtype": "float32",
                          "mtp_num_hidden_layers": 1, )" +
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
      {"nemotron-nano-12b-v2",
       Frame("nemotron_h", 5120, 62, 131072, 131072) +
           R"("num_attention_heads": 40, "num_key_value_heads": 8, "attention_head_dim": 128, )" +
           Nemotron("M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M-", 128, 80, 128,
                    R"("intermediate_size": 20480)")},
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
      {"ministral-3-8b", R"("model_type": "mistral3", "text_config": {)" +
                             Frame("ministral3", 4096, 34, 131072, 262144) + Heads(32, 8, 128) +
                             R"("intermediate_size": 14336, "sliding_window": null})"},
      {"seed-oss-36b", Frame("seed_oss", 5120, 64, 155136, 524288) + Heads(80, 8, 128) +
                           R"("intermediate_size": 27648)"},
      {"bloom-176b", R"("model_type": "bloom", "torch_dtype": "bfloat16", "n_embed": 14336,
          "n_layer": 70, "num_attention_heads": 112, "seq_length": 2048, "vocab_size": 250880)"},
      {"falcon-180b", R"("model_type": "falcon", "torch_dtype": "bfloat16", "hidden_size": 14848,
          "num_hidden_layers": 80, "num_attention_heads": 232, "num_kv_heads": 8,
          "new_decoder_architecture": true, "multi_query": true, "parallel_attn": true,
          "alibi": false, "bias": false, "vocab_size": 65024, "tie_word_embeddings": false)"},
  };
}

// Rows of the published block_configs, as runs of equal ones.
std::vector<Published> BlockModels() {
  return {
      {"llama-3.3-nemotron-super-49b",
       Frame("nemotron-nas", 8192, 80, 128256, 131072) + R"("num_attention_heads": 64, )" +
           Blocks({{1, 8, 2.625},  {5, 8, 5.25},   {2, 0, 2.625},  {3, 8, 5.25},   {1, 0, 3.28125},
                   {30, 8, 5.25},  {1, 0, 1.3125}, {2, 0, 2.625},  {1, 0, 1.3125}, {1, 0, 5.25},
                   {1, 0, 1.3125}, {1, 0, 2.625},  {3, 0, 1.3125}, {1, 8, 5.25},   {1, 0, 1.3125},
                   {2, 0, 1.0},    {1, 0, 1.3125}, {3, 0, 1.0},    {2, 0, 1.3125}, {2, 0, 0.5},
                   {2, 0, 1.0},    {2, 0, 0.5},    {1, 0, 1.0},    {2, 0, 0.5},    {9, 8, 5.25}})},
      {"llama-3.1-nemotron-ultra-253b",
       Frame("nemotron-nas", 16384, 162, 128256, 131072) + R"("num_attention_heads": 128, )" +
           Blocks({{1, 16, 0.4875}, {1, 16, 0.975},  {6, 16, 1.4625},  {1, 16, 1.95},
                   {4, 0, 0},       {3, 16, 1.95},   {2, 16, 4.875},   {6, 0, 0},
                   {3, 16, 4.875},  {5, 0, 0},       {3, 16, 4.875},   {1, 16, 2.4375},
                   {3, 0, 0},       {3, 16, 1.95},   {1, 0, 1.95},     {1, 16, 4.875},
                   {1, 0, 4.875},   {5, 0, 0},       {4, 16, 4.875},   {5, 0, 0},
                   {4, 16, 4.875},  {5, 0, 0},       {4, 16, 4.875},   {5, 0, 0},
                   {4, 16, 4.875},  {5, 0, 0},       {1, 16, 4.875},   {3, 16, 3.4125},
                   {2, 0, 0},       {1, 16, 2.925},  {3, 16, 2.4375},  {2, 0, 2.4375},
                   {1, 16, 2.4375}, {1, 0, 0},       {7, 0, 2.4375},   {1, 16, 2.4375},
                   {5, 0, 0},       {1, 16, 2.925},  {1, 16, 4.875},   {1, 0, 4.875},
                   {1, 16, 4.875},  {8, 0, 0},       {1, 0, 36.5625},  {8, 0, 0},
                   {1, 0, 39.0},    {8, 0, 0},       {1, 0, 31.40625}, {5, 0, 0},
                   {1, 0, 27.5625}, {1, 0, 1.95},    {1, 16, 1.95},    {1, 16, 2.4375},
                   {1, 0, 0},       {2, 16, 2.4375}, {1, 16, 3.4125},  {4, 16, 4.875},
                   {1, 16, 2.4375}})},
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

INSTANTIATE_TEST_SUITE_P(Latent, PublishedConfigTest, ::testing::ValuesIn(LatentModels()));
INSTANTIATE_TEST_SUITE_P(Mixture, PublishedConfigTest, ::testing::ValuesIn(MixtureModels()));
INSTANTIATE_TEST_SUITE_P(Routed, PublishedConfigTest, ::testing::ValuesIn(RoutedModels()));
INSTANTIATE_TEST_SUITE_P(Block, PublishedConfigTest, ::testing::ValuesIn(BlockModels()));
INSTANTIATE_TEST_SUITE_P(Recurrent, PublishedConfigTest, ::testing::ValuesIn(RecurrentModels()));
INSTANTIATE_TEST_SUITE_P(Window, PublishedConfigTest, ::testing::ValuesIn(WindowModels()));

}  // namespace
}  // namespace twin
