// A model as its config.json describes it: the shape, and how to compute it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/models/rope_config.h"
#include "core/activation.h"
#include "core/model_spec.h"

namespace twin {

// Names and layout of the tensors in the weights file.
enum class WeightNaming : std::uint8_t {
  kLlama,       // model.layers.N.self_attn.q_proj ...; also mistral, qwen2, qwen3, gemma2, granite
  kPhi3,        // as kLlama, with qkv_proj and gate_up_proj fused
  kMixtral,     // as kLlama, with block_sparse_moe.experts.E.w1 ... in place of mlp.experts.E
  kGpt2,        // h.N.attn.c_attn ..., matrices stored [in, out]
  kOpt,         // decoder.layers.N.self_attn.q_proj, fc1, fc2
  kDeepSeek,    // as kLlama, with q_a_proj, kv_a_proj_with_mqa, kv_b_proj, mlp.shared_experts
  kGptOss,      // as kLlama, with mlp.router and all experts in one tensor
  kMiniMax,     // as kMixtral, with block_sparse_moe.e_score_correction_bias
  kQwenHybrid,  // as kLlama, with linear_attn.in_proj_qkvz ... in layers of Gated DeltaNet
};

// Positions of a layer's norms: before each half, after each residual addition, both before and
// after each half (gemma2), or after each half, before the addition (olmo2).
enum class NormPlacement : std::uint8_t { kBefore, kBehindSum, kAround, kBehindHalf };

// How the router of a mixture scores and chooses experts, besides ModelConfig's
// normalises_expert_weights and the selection bias of MoeSpec.
struct RoutingConfig {
  bool sigmoid = false;  // scores are the sigmoids of the logits, otherwise their softmax
  // Neighbouring experts form groups, of which those with the largest sums of their best scores,
  // best_of_group each, can be chosen.
  std::int32_t groups = 1;
  std::int32_t groups_kept = 1;
  std::int32_t best_of_group = 1;
  float scale = 1;  // of the weights

  bool operator==(const RoutingConfig&) const = default;
};

// Layout in which a checkpoint stores weights in 4 bits.
struct Int4Layout {
  enum class Kind : std::uint8_t { kGptq, kAwq };
  Kind kind = Kind::kGptq;
  std::int32_t group = 128;     // inputs that share a scale and a zero point; 0 = all inputs
  bool zero_minus_one = false;  // zero points are stored less 1
  bool symmetric = false;       // all zero points are 8, whether stored as 8 or as 7

  bool operator==(const Int4Layout&) const = default;
};

// Lengths of a context that a config.json names. Each server reads keys of its own
// (served_positions.h).
struct StoredPositions {
  static constexpr std::array<const char*, 9> kKeys = {"max_position_embeddings",
                                                       "n_positions",
                                                       "max_seq_len",
                                                       "seq_length",
                                                       "model_max_length",
                                                       "max_target_positions",
                                                       "max_sequence_length",
                                                       "max_seq_length",
                                                       "seq_len"};
  std::array<std::optional<std::int32_t>, kKeys.size()> values;  // by key

  // nullopt if the config does not name the key. REQUIRES: it is one of kKeys.
  [[nodiscard]] std::optional<std::int32_t> Find(std::string_view key) const;

  bool operator==(const StoredPositions&) const = default;
};

// The simulator uses `shape` alone; executors use everything. Some configs can be simulated but not
// computed (exec/model/model_config.h).
struct ModelConfig {
  ModelSpec shape;
  bool is_computed = true;  // false: only the shape was read, all else is meaningless
  std::string model_type;   // empty: unknown, as for a preset
  WeightNaming naming = WeightNaming::kLlama;
  Activation activation = Activation::kSilu;
  NormPlacement norm_placement = NormPlacement::kBefore;
  float norm_epsilon = 0;
  float norm_gain_offset = 0;  // added to the stored gains (gemma2: 1)
  // For models without learned positions: leading dimensions of a head that are rotated, and how.
  std::int32_t rotary_dimensions = 0;
  bool rotates_neighbours = false;  // pairs are (2 i, 2 i + 1), not (i, i + rotary_dimensions / 2)
  RopeConfig rope;
  StoredPositions positions;
  // First row of the position table that is used (opt: 2).
  std::int32_t position_offset = 0;
  // For each layer, the number of keys that a query sees, its own included; 0 = all before it.
  std::vector<std::int32_t> layer_windows;

  // Factors on the embedding, on each half's output before it is added, on q.k before softmax, and
  // on the logits. Caps: x becomes cap * tanh(x / cap); 0 = none.
  float embedding_scale = 1;
  float residual_scale = 1;
  float attention_scale = 1;
  float logit_scale = 1;
  float attention_cap = 0;
  float logit_cap = 0;
  // In a mixture, the scores of a token's experts are divided by their sum.
  bool normalises_expert_weights = false;
  RoutingConfig routing;
  // Above 0: an expert computes min(g, limit) * sigmoid(1.702 * min(g, limit)) * (1 + clamped u) of
  // its gate g and up u, which is clamped to [-limit, limit] (gpt_oss).
  float gate_limit = 0;
  bool scales_attention_by_layer = false;  // also divides q.k by the layer's number, from 1 (gpt2)

  std::vector<std::int32_t> end_tokens;  // a generation may stop after any of these

  // quant_method of quantization_config, as "fp8", "awq", "gptq"; empty = stored as weight_dtype.
  std::string quantization;
  std::optional<std::int32_t> quantization_bits;  // for awq and gptq
  std::optional<Int4Layout> int4;  // set for awq and gptq of 4 bits in a layout that is supported
  bool knows_formats = true;       // weight_dtype and formats are those of quantization_config
  std::string format_note;         // one line on what `formats` cannot say; usually empty
  std::string format_problem;      // why its formats are not known, if its method is
  bool is_nested = false;          // the config was the text_config of a multi-modal model
};

}  // namespace twin
