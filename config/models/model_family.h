// The model families that config.json can name, with the defaults of each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

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

// Layers that `sliding_window` applies to if the config has no `layer_types`.
enum class WindowRule : std::uint8_t {
  kNone,                // the family has no window
  kAll,                 // every layer, if a window is given
  kEven,                // layers 0, 2, 4, ...
  kFromLayerIfEnabled,  // layers max_window_layers and above, if use_sliding_window
  kAllIfEnabled,        // every layer, if use_sliding_window
};

// A mixture of experts in place of each layer's MLP.
struct ExpertDefaults {
  const char* experts_field = nullptr;  // nullptr: the family has a dense MLP
  const char* width_field = nullptr;    // field with the width of one expert
  std::int32_t experts = 0;
  std::int32_t experts_per_token = 0;
  std::int32_t width = 0;         // 0: the field is required
  std::int32_t shared_width = 0;  // width of the expert that every token passes; 0: there is none
  // The weights of a token's experts are divided by their sum: always, or if norm_topk_prob.
  bool always_normalised = false;
};

// Facts that a family fixes in code, and the values of fields that a config may leave out. Sizes
// that define a model (layers, hidden size, query heads, MLP width, vocabulary, positions) have no
// defaults: a config without them is damaged.
struct ModelFamily {
  std::string_view model_type;
  WeightNaming naming = WeightNaming::kLlama;
  // num_key_value_heads and head_dim; 0: as many as query heads, hidden size / query heads.
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  double norm_epsilon = 1e-6;
  double rope_theta = 10000;
  const char* activation_field = "hidden_act";
  const char* activation = "silu";
  bool has_qkv_bias = false;
  bool has_qk_norm = false;
  bool tied_embeddings = false;
  WindowRule window_rule = WindowRule::kNone;
  std::int32_t sliding_window = 0;  // 0: none
  std::optional<std::int32_t> end_token = std::nullopt;
  ExpertDefaults moe = {};

  [[nodiscard]] bool has_experts() const { return moe.experts_field != nullptr; }
};

// Layers without a window in families of WindowRule::kFromLayerIfEnabled.
inline constexpr std::int32_t kMaxWindowLayersDefault = 28;

// All families, dense ones first.
std::span<const ModelFamily> ModelFamilies();

// nullptr if there is none of that name.
const ModelFamily* FindModelFamily(std::string_view model_type);

// Names of all families, as "llama, mistral, ...".
std::string ModelFamilyNames();

}  // namespace twin
