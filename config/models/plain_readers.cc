// Families of equal layers with attention over cached keys: shape and computation.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <nlohmann/json.hpp>

#include "config/models/config_fields.h"
#include "config/models/families.h"
#include "core/layer_groups.h"

namespace twin {
namespace {

using nlohmann::json;

// Layers without a window in families of WindowRule::kFromLayerIfEnabled.
constexpr std::int32_t kMaxWindowLayersDefault = 28;

void ReadLayers(const ConfigFields& config, const char* field, ModelConfig& model) {
  model.shape.layers = config.LayerCount(field);
  model.layer_windows.assign(static_cast<std::size_t>(model.shape.layers), 0);
}

void RequireDivision(const ConfigFields& config, const char* whole, std::int32_t number,
                     const char* part, std::int32_t divisor) {
  if (number % divisor == 0) return;
  config.Refuse(fmt::format("{} {} is no multiple of {} {}", whole, number, part, divisor));
}

void ReadHeads(const ConfigFields& config, const ModelFamily& family, ModelSpec& shape) {
  shape.query_heads = config.Size("num_attention_heads");
  const bool one_each = family.kv_heads == 0 || config.IsNull("num_key_value_heads");
  shape.kv_heads = config.OptionalSize("num_key_value_heads")
                       .value_or(one_each ? shape.query_heads : family.kv_heads);
  RequireDivision(config, "num_attention_heads", shape.query_heads, "num_key_value_heads",
                  shape.kv_heads);
  const bool derived = family.head_dim == 0 || config.IsNull("head_dim");
  if (!derived || config.Has("head_dim")) {
    shape.head_dim = config.OptionalSize("head_dim").value_or(family.head_dim);
    return;
  }
  if (shape.hidden % shape.query_heads != 0) {
    config.Refuse(
        fmt::format("hidden_size {} is no multiple of num_attention_heads {}, and head_dim is "
                    "absent",
                    shape.hidden, shape.query_heads));
  }
  shape.head_dim = shape.hidden / shape.query_heads;
}

std::vector<bool> WindowedByRule(const ConfigFields& config, const ModelFamily& family,
                                 std::int32_t layers) {
  std::vector<bool> windowed(static_cast<std::size_t>(layers), true);
  if (family.window_rule == WindowRule::kEven) {
    for (std::size_t i = 1; i < windowed.size(); i += 2) windowed[i] = false;
  }
  if (family.window_rule == WindowRule::kFromLayerIfEnabled) {
    const auto full = config.OptionalSize("max_window_layers", 0).value_or(kMaxWindowLayersDefault);
    std::fill_n(windowed.begin(), std::min(full, layers), false);
  }
  return windowed;
}

std::vector<bool> WindowedByType(const ConfigFields& config, const json& types,
                                 std::int32_t layers) {
  std::vector<bool> windowed(static_cast<std::size_t>(layers));
  const bool sound = types.is_array() && types.size() == windowed.size() &&
                     std::all_of(types.begin(), types.end(), [](const json& type) {
                       return type == "sliding_attention" || type == "full_attention";
                     });
  if (!sound) {
    config.Refuse(
        "layer_types must be a list of num_hidden_layers names, each full_attention or "
        "sliding_attention");
  }
  for (std::size_t i = 0; i < windowed.size(); ++i) windowed[i] = types[i] == "sliding_attention";
  return windowed;
}

void RequireFullAttention(const ConfigFields& config, const json& types, std::int32_t layers) {
  const std::vector<bool> windowed = WindowedByType(config, types, layers);
  if (std::ranges::find(windowed, true) == windowed.end()) return;
  config.Refuse("layer_types has sliding_attention; allowed for this model_type: full_attention");
}

void ReadWindow(const ConfigFields& config, const ModelFamily& family, ModelConfig& model) {
  const bool switched = family.window_rule == WindowRule::kFromLayerIfEnabled ||
                        family.window_rule == WindowRule::kAllIfEnabled;
  const json* const types = config.Find("layer_types");
  // Transformers read a window only where the family has one.
  config.Know({"sliding_window"});
  if (family.window_rule == WindowRule::kNone) {
    if (types != nullptr) RequireFullAttention(config, *types, model.shape.layers);
    return;
  }
  if (switched && !config.Flag("use_sliding_window", false)) return;
  if (config.IsNull("sliding_window")) return;
  const auto window = config.OptionalSize("sliding_window").value_or(family.sliding_window);
  if (window == 0) return;
  const auto windowed = types != nullptr ? WindowedByType(config, *types, model.shape.layers)
                                         : WindowedByRule(config, family, model.shape.layers);
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    if (windowed[i]) model.layer_windows[i] = window;
  }
  const auto count = std::count(windowed.begin(), windowed.end(), true);
  if (count > 0) SetWindow(window, static_cast<std::int32_t>(count), model.shape);
}

void ReadMlp(const ConfigFields& config, const ModelFamily& family, ModelSpec& shape) {
  if (!family.has_experts()) {
    shape.intermediate = config.Size("intermediate_size");
    return;
  }
  const ExpertDefaults& defaults = family.moe;
  shape.moe.experts = config.OptionalSize(defaults.experts_field).value_or(defaults.experts);
  shape.moe.experts_per_token =
      config.OptionalSize("num_experts_per_tok").value_or(defaults.experts_per_token);
  if (shape.moe.experts_per_token > shape.moe.experts) {
    config.Refuse(fmt::format("num_experts_per_tok {} exceeds {} {}", shape.moe.experts_per_token,
                              defaults.experts_field, shape.moe.experts));
  }
  shape.moe.expert_intermediate =
      defaults.width > 0 ? config.OptionalSize(defaults.width_field).value_or(defaults.width)
                         : config.Size(defaults.width_field);
  if (defaults.shared_width > 0) {
    shape.moe.shared_intermediate =
        config.OptionalSize("shared_expert_intermediate_size").value_or(defaults.shared_width);
  }
  const json* const dense = config.Find("mlp_only_layers");
  if (config.OptionalSize("decoder_sparse_step").value_or(1) != 1 ||
      (dense != nullptr && !dense->empty())) {
    config.Refuse(
        "decoder_sparse_step and mlp_only_layers: mixtures with some dense layers are not "
        "supported, must be 1 and empty");
  }
}

float Factor(const ConfigFields& config, const char* field, double absent) {
  return static_cast<float>(config.OptionalPositive(field).value_or(absent));
}

void ReadGraniteScales(const ConfigFields& config, ModelConfig& model) {
  model.embedding_scale = Factor(config, "embedding_multiplier", 1);
  model.residual_scale = Factor(config, "residual_multiplier", 1);
  model.attention_scale = Factor(config, "attention_multiplier", 1);
  model.logit_scale = static_cast<float>(1 / config.OptionalPositive("logits_scaling").value_or(1));
}

void ReadGemma2Scales(const ConfigFields& config, ModelConfig& model) {
  const auto cap = [&](const char* field, double absent) {
    return config.IsNull(field) ? 0 : Factor(config, field, absent);
  };
  model.norm_placement = NormPlacement::kAround;
  model.shape.norms_per_layer = 4;
  model.norm_gain_offset = 1;
  model.embedding_scale = std::sqrt(static_cast<float>(model.shape.hidden));
  model.attention_scale = static_cast<float>(
      1 / std::sqrt(config.OptionalPositive("query_pre_attn_scalar").value_or(256)));
  model.attention_cap = cap("attn_logit_softcapping", 50);
  model.logit_cap = cap("final_logit_softcapping", 30);
}

ModelConfig ReadLlamaLike(const ConfigFields& config, const ModelFamily& family) {
  ModelConfig model;
  ModelSpec& shape = model.shape;
  shape.hidden = config.Size("hidden_size");
  ReadLayers(config, "num_hidden_layers", model);
  shape.vocab = config.Size("vocab_size");
  shape.max_position = config.Size("max_position_embeddings");
  ReadMlp(config, family, shape);
  ReadHeads(config, family, shape);
  ReadWindow(config, family, model);
  model.attention_scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
  if (family.read_computation != nullptr) family.read_computation(config, model);
  model.rope = ReadRopeConfig(config, family, shape.max_position);
  model.rotary_dimensions = ReadRotaryDimensions(config, shape.head_dim);
  model.norm_epsilon =
      static_cast<float>(config.OptionalPositive("rms_norm_eps").value_or(family.norm_epsilon));
  const bool attention_bias = config.Flag("attention_bias", false);
  shape.qkv_bias =
      attention_bias ||
      (family.qkv_bias_field == nullptr ? family.has_qkv_bias
                                        : config.Flag(family.qkv_bias_field, family.has_qkv_bias));
  shape.output_bias = attention_bias;
  if (!family.has_experts()) shape.mlp_bias = config.Flag("mlp_bias", false);
  model.normalises_expert_weights = family.has_experts() && (family.moe.always_normalised ||
                                                             config.Flag("norm_topk_prob", false));
  shape.qk_norm = family.has_qk_norm;
  return model;
}

// Sets the features that GPT-2 and OPT share: LayerNorm, a plain MLP, biases, learned positions.
void SetLearnedPositionFamily(ModelConfig& model) {
  ModelSpec& shape = model.shape;
  shape.norm = NormKind::kLayerNorm;
  shape.gated_mlp = false;
  shape.qkv_bias = shape.output_bias = shape.mlp_bias = true;
  shape.kv_heads = shape.query_heads;
  shape.head_dim = shape.hidden / shape.query_heads;
  shape.learned_positions = shape.max_position + model.position_offset;
  model.attention_scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
}

ModelConfig ReadGpt2(const ConfigFields& config, const ModelFamily& family) {
  ModelConfig model;
  ModelSpec& shape = model.shape;
  shape.hidden = config.Size("n_embd");
  ReadLayers(config, "n_layer", model);
  shape.query_heads = config.Size("n_head");
  RequireDivision(config, "n_embd", shape.hidden, "n_head", shape.query_heads);
  shape.vocab = config.Size("vocab_size");
  shape.max_position = config.Size("n_positions");
  const std::int64_t inner = config.OptionalSize("n_inner").value_or(0) > 0
                                 ? config.Size("n_inner")
                                 : std::int64_t{4} * shape.hidden;
  if (inner > std::numeric_limits<std::int32_t>::max()) config.Refuse("n_embd is too large");
  shape.intermediate = static_cast<std::int32_t>(inner);
  if (config.Flag("add_cross_attention", false)) {
    config.Refuse("add_cross_attention true is not supported, must be false");
  }
  SetLearnedPositionFamily(model);
  if (!config.Flag("scale_attn_weights", true)) model.attention_scale = 1;
  model.scales_attention_by_layer = config.Flag("scale_attn_by_inverse_layer_idx", false);
  model.norm_epsilon = static_cast<float>(
      config.OptionalPositive("layer_norm_epsilon").value_or(family.norm_epsilon));
  return model;
}

ModelConfig ReadOpt(const ConfigFields& config, const ModelFamily& family) {
  ModelConfig model;
  ModelSpec& shape = model.shape;
  model.position_offset = 2;  // the table's first two rows are unused
  shape.hidden = config.Size("hidden_size");
  ReadLayers(config, "num_hidden_layers", model);
  shape.query_heads = config.Size("num_attention_heads");
  RequireDivision(config, "hidden_size", shape.hidden, "num_attention_heads", shape.query_heads);
  shape.vocab = config.Size("vocab_size");
  shape.max_position = config.Size("max_position_embeddings");
  shape.intermediate = config.Size("ffn_dim");
  const std::int32_t width = config.OptionalSize("word_embed_proj_dim").value_or(shape.hidden);
  if (width != shape.hidden) shape.embedding_width = width;
  SetLearnedPositionFamily(model);
  shape.qkv_bias = shape.output_bias = shape.mlp_bias = config.Flag("enable_bias", true);
  const bool before = config.Flag("do_layer_norm_before", true);
  model.norm_placement = before ? NormPlacement::kBefore : NormPlacement::kBehindSum;
  shape.final_norm = before && !config.Flag("_remove_final_layer_norm", false);
  if (!config.Flag("layer_norm_elementwise_affine", true)) {
    config.Refuse("layer_norm_elementwise_affine false is not supported, must be true");
  }
  model.norm_epsilon = static_cast<float>(family.norm_epsilon);
  return model;
}

// Source: the configuration classes of transformers 4.55.4 (models/*/configuration_*.py), and its
// modelling code for facts that configurations leave out. Version 5.23.0 has equal values except
// for the windows of qwen2_moe, where 4.55.4 is followed.
constexpr std::array kPlainFamilies = {
    ModelFamily{.model_type = "llama", .read = ReadLlamaLike, .end_token = 2},
    ModelFamily{.model_type = "mistral",
                .read = ReadLlamaLike,
                .kv_heads = 8,
                .window_rule = WindowRule::kAll,
                .sliding_window = 4096,
                .end_token = 2},
    ModelFamily{.model_type = "qwen2",
                .read = ReadLlamaLike,
                .kv_heads = 32,
                .has_qkv_bias = true,
                .window_rule = WindowRule::kFromLayerIfEnabled,
                .sliding_window = 4096},
    ModelFamily{.model_type = "qwen3",
                .read = ReadLlamaLike,
                .kv_heads = 32,
                .head_dim = 128,
                .has_qk_norm = true,
                .window_rule = WindowRule::kFromLayerIfEnabled,
                .sliding_window = 4096},
    ModelFamily{.model_type = "phi3",
                .read = ReadLlamaLike,
                .naming = WeightNaming::kPhi3,
                .norm_epsilon = 1e-5,
                .longrope_has_old_names = true,
                .window_rule = WindowRule::kAll,
                .end_token = 32000},
    ModelFamily{.model_type = "gemma2",
                .read = ReadLlamaLike,
                .read_computation = ReadGemma2Scales,
                .kv_heads = 4,
                .head_dim = 256,
                .activation_field = "hidden_activation",
                .activation = "gelu_pytorch_tanh",
                .tied_embeddings = true,
                .window_rule = WindowRule::kEven,
                .sliding_window = 4096,
                .end_token = 1},
    ModelFamily{.model_type = "granite",
                .read = ReadLlamaLike,
                .read_computation = ReadGraniteScales,
                .end_token = 2},
    ModelFamily{.model_type = "gpt2",
                .read = ReadGpt2,
                .naming = WeightNaming::kGpt2,
                .norm_epsilon = 1e-5,
                .activation_field = "activation_function",
                .activation = "gelu_new",
                .has_qkv_bias = true,
                .tied_embeddings = true,
                .end_token = 50256},
    ModelFamily{.model_type = "opt",
                .read = ReadOpt,
                .naming = WeightNaming::kOpt,
                .norm_epsilon = 1e-5,
                .activation_field = "activation_function",
                .activation = "relu",
                .has_qkv_bias = true,
                .tied_embeddings = true,
                .end_token = 2},
    ModelFamily{.model_type = "mixtral",
                .read = ReadLlamaLike,
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
                .read = ReadLlamaLike,
                .kv_heads = 16,
                .has_qkv_bias = true,
                .qkv_bias_field = "qkv_bias",
                .window_rule = WindowRule::kFromLayerIfEnabled,
                .sliding_window = 4096,
                .moe = {.experts_field = "num_experts",
                        .width_field = "moe_intermediate_size",
                        .experts = 60,
                        .experts_per_token = 4,
                        .width = 1408,
                        .shared_width = 5632}},
    ModelFamily{.model_type = "qwen3_moe",
                .read = ReadLlamaLike,
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

std::span<const ModelFamily> PlainFamilies() { return kPlainFamilies; }

}  // namespace twin
