#include "config/models/layered_fields.h"

#include <fmt/format.h>

#include <limits>

#include <nlohmann/json.hpp>

#include "core/layer_groups.h"

namespace twin {

std::int32_t ReadLayerCount(const ConfigFields& fields, const char* field) {
  return fields.LayerCount(field);
}

ModelSpec ReadFrame(const ConfigFields& fields, const std::vector<LayerSpec>& layers,
                    const char* positions) {
  ModelSpec model;
  model.hidden = fields.Size("hidden_size");
  model.vocab = fields.Size("vocab_size");
  model.max_position = fields.Size(positions);
  SetLayerList(layers, model);
  return model;
}

LayerSpec ReadPlainHeads(const ConfigFields& fields) {
  LayerSpec layer;
  layer.query_heads = fields.Size("num_attention_heads");
  layer.kv_heads = fields.Or("num_key_value_heads", layer.query_heads);
  if (layer.kv_heads == 0 || layer.query_heads % layer.kv_heads != 0) {
    fields.Refuse(fmt::format("num_attention_heads {} is no multiple of num_key_value_heads {}",
                              layer.query_heads, layer.kv_heads));
  }
  layer.head_dim = fields.Or("head_dim", 0);
  if (layer.head_dim > 0) return layer;
  const std::int32_t hidden = fields.Size("hidden_size");
  if (hidden % layer.query_heads != 0) {
    fields.Refuse(
        fmt::format("hidden_size {} is no multiple of num_attention_heads {}, and "
                    "head_dim is absent",
                    hidden, layer.query_heads));
  }
  layer.head_dim = hidden / layer.query_heads;
  return layer;
}

LayerSpec ReadBiasedHeads(const ConfigFields& fields, bool absent) {
  LayerSpec layer = ReadPlainHeads(fields);
  layer.qkv_bias = layer.output_bias = fields.Flag("attention_bias", absent);
  return layer;
}

LatentSpec ReadLatentShape(const ConfigFields& fields) {
  return {.query_rank = fields.Or("q_lora_rank", 0),
          .kv_rank = fields.Size("kv_lora_rank"),
          .nope_dim = fields.Size("qk_nope_head_dim"),
          .rope_dim = fields.Size("qk_rope_head_dim"),
          .value_dim = fields.Size("v_head_dim")};
}

LayerSpec LatentLayer(std::int32_t heads, const LatentSpec& latent) {
  LayerSpec layer;
  layer.query_heads = layer.kv_heads = heads;
  layer.head_dim = latent.nope_dim + latent.rope_dim;
  layer.value_dim = latent.value_dim;
  layer.latent = latent;
  return layer;
}

MoeSpec ReadExperts(const ConfigFields& fields, const ExpertFields& names) {
  MoeSpec moe;
  moe.experts = fields.Size(names.experts);
  moe.experts_per_token = fields.Size(names.per_token);
  if (moe.experts_per_token > moe.experts) {
    fields.Refuse(fmt::format("{} {} exceeds {} {}", names.per_token, moe.experts_per_token,
                              names.experts, moe.experts));
  }
  moe.expert_intermediate = fields.Size(names.width);
  std::int64_t shared = names.shared_width != nullptr ? fields.Or(names.shared_width, 0) : 0;
  if (names.shared_count != nullptr) {
    const std::int64_t width = names.shared_width != nullptr ? shared : moe.expert_intermediate;
    shared = width * fields.Or(names.shared_count, names.shared_width != nullptr ? 1 : 0);
  }
  if (shared > std::numeric_limits<std::int32_t>::max()) {
    fields.Refuse(
        fmt::format("{} makes the shared experts wider than 2^31 - 1", names.shared_count));
  }
  moe.shared_intermediate = static_cast<std::int32_t>(shared);
  moe.selection_bias = names.selection_bias;
  moe.shared_gate = names.shared_gate;
  return moe;
}

std::vector<bool> ReadSparseLayers(const ConfigFields& fields, std::int32_t layers,
                                   std::int32_t first_dense) {
  std::vector<bool> sparse(static_cast<std::size_t>(layers), true);
  const std::int32_t dense = fields.Or("first_k_dense_replace", first_dense);
  if (fields.Has("mlp_layer_types")) {
    fields.Know({"moe_layer_freq"});
    const auto names = fields.Names("mlp_layer_types", layers, {"dense", "sparse"});
    for (std::size_t i = 0; i < sparse.size(); ++i) sparse[i] = names[i] == "sparse";
    return sparse;
  }
  const nlohmann::json* const frequency = fields.Find("moe_layer_freq");
  if (frequency != nullptr && frequency->is_array()) {
    const auto flags = fields.Numbers("moe_layer_freq", layers, 1);
    for (std::size_t i = 0; i < sparse.size(); ++i) sparse[i] = flags[i] == 1;
    return sparse;
  }
  const auto every = frequency == nullptr ? 1 : fields.Size("moe_layer_freq");
  for (std::int32_t i = 0; i < layers; ++i) {
    sparse[static_cast<std::size_t>(i)] = i >= dense && i % every == 0;
  }
  return sparse;
}

LayerSpec WithMlp(const ConfigFields& fields, LayerSpec layer, const MoeSpec& moe, bool sparse) {
  if (sparse) {
    layer.moe = moe;
  } else {
    layer.intermediate = fields.Size("intermediate_size");
  }
  return layer;
}

std::vector<bool> ReadWindowedLayers(const ConfigFields& fields, std::int32_t layers,
                                     std::int32_t period) {
  std::vector<bool> windowed(static_cast<std::size_t>(layers));
  if (fields.Has("layer_types")) {
    const auto names = fields.Names("layer_types", layers, {"full_attention", "sliding_attention"});
    for (std::size_t i = 0; i < windowed.size(); ++i) windowed[i] = names[i] != "full_attention";
    return windowed;
  }
  for (std::int32_t i = 0; i < layers; ++i) {
    windowed[static_cast<std::size_t>(i)] = (i + 1) % period != 0;
  }
  return windowed;
}

std::int32_t ReadWindowSize(const ConfigFields& fields) {
  const std::int32_t window = fields.Or("sliding_window", 0);
  if (window == 0) {
    fields.Refuse(
        "sliding_window is missing, must be a positive integer where layers have windows");
  }
  return window;
}

}  // namespace twin
