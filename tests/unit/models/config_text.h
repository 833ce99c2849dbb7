// The words of config.json files: parts of a JSON object, most with a comma behind them.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>

namespace twin {

inline std::string Braced(const std::string& text) { return fmt::format("{{{}}}", text); }

inline std::string Frame(const char* type, int hidden, int layers, int vocab, int positions) {
  return fmt::format(R"("model_type": "{}", "dtype": "bfloat16", "hidden_size": {},
      "num_hidden_layers": {}, "vocab_size": {}, "max_position_embeddings": {}, )",
                     type, hidden, layers, vocab, positions);
}
inline std::string Heads(int query, int kv, int dim) {
  return fmt::format(R"("num_attention_heads": {}, "num_key_value_heads": {}, "head_dim": {}, )",
                     query, kv, dim);
}
inline std::string Latent(int heads, const char* query_rank, int nope, int value) {
  return fmt::format(R"("num_attention_heads": {}, "num_key_value_heads": {}, "q_lora_rank": {},
      "kv_lora_rank": 512, "qk_nope_head_dim": {}, "qk_rope_head_dim": 64, "v_head_dim": {}, )",
                     heads, heads, query_rank, nope, value);
}
inline std::string Experts(int dense, int experts, int top, int width, int shared) {
  return fmt::format(R"("intermediate_size": {}, "n_routed_experts": {},
      "num_experts_per_tok": {}, "moe_intermediate_size": {}, "n_shared_experts": {})",
                     dense, experts, top, width, shared);
}
inline constexpr const char* kFirst = R"(, "first_k_dense_replace": 1, "moe_layer_freq": 1)";
inline constexpr const char* kThree =
    R"(, "first_k_dense_replace": 3, "num_nextn_predict_layers": 1)";
inline constexpr const char* kModule = R"(, "num_nextn_predict_layers": 1)";
inline constexpr const char* kIndex =
    R"(, "index_n_heads": {}, "index_head_dim": 128, "index_topk": 2048)";

// A JSON list of `count` times `period`.
inline std::string List(int count, const std::string& period, const std::string& rest = "") {
  std::string list;
  for (int i = 0; i < count; ++i) list += (i > 0 ? ", " : "") + period;
  return "[" + list + (rest.empty() ? "" : ", " + rest) + "]";
}
inline const std::string kW = R"("sliding_attention")";
inline const std::string kF = R"("full_attention")";
inline const std::string kG = R"("linear_attention")";
inline std::string Types(const std::string& list) { return R"("layer_types": )" + list + ", "; }

inline std::string GptOss(int layers, int experts) {
  return Frame("gpt_oss", 2880, layers, 201088, 131072) + Heads(64, 8, 64) +
         Types(List(layers / 2, kW + "," + kF)) +
         fmt::format(R"("sliding_window": 128, "attention_bias": true, "num_local_experts": {},
             "num_experts_per_tok": 4, "intermediate_size": 2880, "quantization_config":
             {{"quant_method": "mxfp4"}})",
                     experts);
}
inline std::string Delta(int value_heads) {
  return fmt::format(R"("linear_num_key_heads": 16, "linear_num_value_heads": {},
      "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4)",
                     value_heads);
}
inline std::string QwenExperts(int experts, int top, int width) {
  return fmt::format(R"(, "num_experts": {}, "num_experts_per_tok": {},
      "moe_intermediate_size": {}, "shared_expert_intermediate_size": {})",
                     experts, top, width, width);
}
inline std::string Nemotron(const char* pattern, int heads, int dim, int state,
                            const std::string& rest) {
  return fmt::format(R"("hybrid_override_pattern": "{}", "mamba_num_heads": {},
      "mamba_head_dim": {}, "n_groups": 8, "ssm_state_size": {}, "conv_kernel": 4, {})",
                     pattern, heads, dim, state, rest);
}

// A block of nemotron-nas: heads in a group, 0 = no attention; ffn_mult, 0 = no MLP.
inline std::string Block(int in_group, double ffn_mult) {
  const std::string attention =
      in_group > 0 ? fmt::format(R"("n_heads_in_group": {}, "no_op": false)", in_group)
                   : R"("n_heads_in_group": null, "no_op": true)";
  const std::string mlp = ffn_mult > 0 ? fmt::format(R"("ffn_mult": {}, "no_op": false)", ffn_mult)
                                       : R"("ffn_mult": null, "no_op": true)";
  return fmt::format(
      R"({{"attention": {{{}, "num_sink_tokens": null, "replace_with_linear": false,
      "sparsify": null, "unshifted_sink": false, "use_prefill_window_in_sink_attention": false,
      "window_length": null}}, "ffn": {{{}, "replace_with_linear": false, "sparsify": null}}}})",
      attention, mlp);
}
struct Run {
  int count;
  int in_group;
  double ffn_mult;
};
inline std::string Blocks(std::initializer_list<Run> runs) {
  std::string list;
  for (const Run& run : runs) {
    for (int i = 0; i < run.count; ++i) {
      if (!list.empty()) list += ", ";
      list += Block(run.in_group, run.ffn_mult);
    }
  }
  return fmt::format(R"("num_key_value_heads": null, "intermediate_size": null,
      "attention_bias": false, "mlp_bias": false, "block_configs": [{}])",
                     list);
}

inline std::string Ernie(int experts, int top, int width, int shared, int start, int last) {
  return fmt::format(R"("use_bias": false, "moe_num_experts": {}, "moe_k": {},
      "moe_intermediate_size": {}, "moe_num_shared_experts": {}, "moe_layer_start_index": {},
      "moe_layer_end_index": {}, "moe_layer_interval": 1)",
                     experts, top, width, shared, start, last);
}
inline std::string Ling(int dense, int experts, int top, int width, int shared, int first) {
  return fmt::format(R"("use_bias": false, "use_qkv_bias": false, "norm_head": false,
      "intermediate_size": {}, "num_experts": {}, "num_experts_per_tok": {},
      "moe_intermediate_size": {}, "num_shared_experts": {}, "first_k_dense_replace": {})",
                     dense, experts, top, width, shared, first);
}

}  // namespace twin
