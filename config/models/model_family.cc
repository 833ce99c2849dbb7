#include "config/models/model_family.h"

#include <algorithm>
#include <array>

namespace twin {
namespace {

// Source: the configuration classes of transformers 4.55.4 (models/*/configuration_*.py), and its
// modelling code for facts that configurations leave out. Version 5.23.0 has equal values except
// for the windows of qwen2_moe, where 4.55.4 is followed.
constexpr std::array kFamilies = {
    ModelFamily{.model_type = "llama", .end_token = 2},
    ModelFamily{.model_type = "mistral",
                .kv_heads = 8,
                .window_rule = WindowRule::kAll,
                .sliding_window = 4096,
                .end_token = 2},
    ModelFamily{.model_type = "qwen2",
                .kv_heads = 32,
                .has_qkv_bias = true,
                .window_rule = WindowRule::kFromLayerIfEnabled,
                .sliding_window = 4096},
    ModelFamily{.model_type = "qwen3",
                .kv_heads = 32,
                .head_dim = 128,
                .has_qk_norm = true,
                .window_rule = WindowRule::kFromLayerIfEnabled,
                .sliding_window = 4096},
    ModelFamily{.model_type = "phi3",
                .naming = WeightNaming::kPhi3,
                .norm_epsilon = 1e-5,
                .window_rule = WindowRule::kAll,
                .end_token = 32000},
    ModelFamily{.model_type = "gemma2",
                .kv_heads = 4,
                .head_dim = 256,
                .activation_field = "hidden_activation",
                .activation = "gelu_pytorch_tanh",
                .tied_embeddings = true,
                .window_rule = WindowRule::kEven,
                .sliding_window = 4096,
                .end_token = 1},
    ModelFamily{.model_type = "granite", .end_token = 2},
    ModelFamily{.model_type = "gpt2",
                .naming = WeightNaming::kGpt2,
                .norm_epsilon = 1e-5,
                .activation_field = "activation_function",
                .activation = "gelu_new",
                .has_qkv_bias = true,
                .tied_embeddings = true,
                .end_token = 50256},
    ModelFamily{.model_type = "opt",
                .naming = WeightNaming::kOpt,
                .norm_epsilon = 1e-5,
                .activation_field = "activation_function",
                .activation = "relu",
                .has_qkv_bias = true,
                .tied_embeddings = true,
                .end_token = 2},
    ModelFamily{.model_type = "mixtral",
                .naming = WeightNaming::kMixtral,
                .kv_heads = 8,
                .norm_epsilon = 1e-5,
                .rope_theta = 1e6,
                .window_rule = WindowRule::kAll,
                .end_token = 2,
                .moe = {.experts_field = "num_local_experts",
                        .width_field = "intermediate_size",
                        .experts = 8,
                        .experts_per_token = 2,
                        .always_normalised = true}},
    ModelFamily{.model_type = "qwen2_moe",
                .kv_heads = 16,
                .has_qkv_bias = true,
                .window_rule = WindowRule::kFromLayerIfEnabled,
                .sliding_window = 4096,
                .moe = {.experts_field = "num_experts",
                        .width_field = "moe_intermediate_size",
                        .experts = 60,
                        .experts_per_token = 4,
                        .width = 1408,
                        .shared_width = 5632}},
    ModelFamily{.model_type = "qwen3_moe",
                .kv_heads = 4,
                .has_qk_norm = true,
                .window_rule = WindowRule::kAllIfEnabled,
                .sliding_window = 4096,
                .moe = {.experts_field = "num_experts",
                        .width_field = "moe_intermediate_size",
                        .experts = 128,
                        .experts_per_token = 8,
                        .width = 768}},
};

}  // namespace

std::span<const ModelFamily> ModelFamilies() { return kFamilies; }

const ModelFamily* FindModelFamily(std::string_view model_type) {
  const auto* const found =
      std::find_if(kFamilies.begin(), kFamilies.end(),
                   [&](const ModelFamily& family) { return family.model_type == model_type; });
  return found == kFamilies.end() ? nullptr : found;
}

std::string ModelFamilyNames() {
  std::string names;
  for (const ModelFamily& family : kFamilies) {
    if (!names.empty()) names += ", ";
    names += family.model_type;
  }
  return names;
}

}  // namespace twin
