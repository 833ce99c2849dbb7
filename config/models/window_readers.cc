// Source of the fields: config.json of the models in presets/.
#include <fmt/format.h>

#include <array>
#include <limits>

#include <nlohmann/json.hpp>

#include "config/models/layered_readers.h"

namespace twin {
namespace {

ModelSpec ReadDense(LayeredFields& fields, LayerSpec full, std::int32_t period) {
  const std::int32_t layers = ReadLayerCount(fields);
  full.intermediate = fields.Size("intermediate_size");
  const std::int32_t window = ReadWindowSize(fields);
  std::vector<LayerSpec> list;
  for (const bool windowed : ReadWindowedLayers(fields, layers, period)) {
    list.push_back(full);
    if (windowed) list.back().sliding_window = window;
  }
  return ReadFrame(fields, list);
}

std::int32_t ReadPeriod(LayeredFields& fields, std::int32_t absent) {
  const std::int32_t period = fields.Or("sliding_window_pattern", absent);
  if (period == 0) fields.Refuse("sliding_window_pattern is 0, must be positive");
  return period;
}

ModelSpec ReadGemma3(LayeredFields& fields) {
  LayerSpec full = ReadPlainHeads(fields);
  full.qkv_bias = full.output_bias = fields.Flag("attention_bias", false);
  full.qk_norm = true;
  full.norms_per_layer = 4;
  return ReadDense(fields, full, ReadPeriod(fields, 6));
}

ModelSpec ReadCohere2(LayeredFields& fields) {
  LayerSpec full = ReadPlainHeads(fields);
  full.qkv_bias = full.output_bias = fields.Flag("attention_bias", false);
  full.norms_per_layer = 1;
  return ReadDense(fields, full, ReadPeriod(fields, 4));
}

ModelSpec ReadExaone4(LayeredFields& fields) {
  LayerSpec full = ReadPlainHeads(fields);
  full.qk_norm = true;
  std::int32_t period = 4;
  const auto* const pattern = fields.Find("sliding_window_pattern");
  if (pattern != nullptr && pattern->is_string()) {
    if (*pattern != "LLLG") fields.Refuse("sliding_window_pattern must be LLLG or a number");
  } else {
    period = ReadPeriod(fields, 4);
  }
  return ReadDense(fields, full, period);
}

ModelSpec ReadOlmo3(LayeredFields& fields) {
  LayerSpec full = ReadPlainHeads(fields);
  full.qkv_bias = full.output_bias = fields.Flag("attention_bias", false);
  full.full_qk_norm = true;
  return ReadDense(fields, full, 4);
}

ModelSpec ReadEqual(LayeredFields& fields, LayerSpec layer) {
  layer.intermediate = fields.Size("intermediate_size");
  const std::int32_t layers = ReadLayerCount(fields);
  return ReadFrame(fields, std::vector<LayerSpec>(static_cast<std::size_t>(layers), layer));
}

ModelSpec ReadOlmo2(LayeredFields& fields) {
  LayerSpec layer = ReadPlainHeads(fields);
  layer.qkv_bias = layer.output_bias = fields.Flag("attention_bias", false);
  layer.full_qk_norm = true;
  return ReadEqual(fields, layer);
}

ModelSpec ReadSmolLm3(LayeredFields& fields) {
  LayerSpec layer = ReadPlainHeads(fields);
  layer.qkv_bias = layer.output_bias = fields.Flag("attention_bias", false);
  if (fields.Flag("use_sliding_window", false)) fields.Refuse("use_sliding_window must be false");
  fields.Know({"no_rope_layers", "layer_types", "sliding_window"});
  return ReadEqual(fields, layer);
}

ModelSpec ReadMinistral3(LayeredFields& fields) {
  return ReadEqual(fields, ReadPlainHeads(fields));
}

// The text part of Qwen3-VL, which has the layers of Qwen3.
ModelSpec ReadQwen3Vl(LayeredFields& fields) {
  LayerSpec layer = ReadPlainHeads(fields);
  layer.qkv_bias = layer.output_bias = fields.Flag("attention_bias", false);
  layer.qk_norm = true;
  return ReadEqual(fields, layer);
}

ModelSpec ReadSeedOss(LayeredFields& fields) {
  LayerSpec layer = ReadPlainHeads(fields);
  layer.qkv_bias = fields.Flag("attention_bias", true);
  layer.output_bias = fields.Flag("attention_out_bias", false);
  return ReadEqual(fields, layer);
}

ModelSpec ReadGemma4(LayeredFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  LayerSpec near = ReadPlainHeads(fields);
  near.qk_norm = true;
  near.qkv_bias = near.output_bias = fields.Flag("attention_bias", false);
  near.norms_per_layer = 4;
  if (fields.Flag("enable_moe_block", false)) {
    near.moe = ReadExperts(fields, {.experts = "num_experts", .per_token = "top_k_experts"});
    near.moe.dense_intermediate = fields.Size("intermediate_size");
    near.norms_per_layer = 7;
    near.scales_per_layer = fields.Size("hidden_size") + near.moe.experts;
  } else {
    near.intermediate = fields.Size("intermediate_size");
  }
  LayerSpec full = near;
  full.head_dim = fields.Or("global_head_dim", full.head_dim);
  full.keys_are_values = fields.Flag("attention_k_eq_v", false);
  if (full.keys_are_values) {
    full.kv_heads = fields.Or("num_global_key_value_heads", full.kv_heads);
  }
  near.sliding_window = ReadWindowSize(fields);
  std::vector<LayerSpec> list;
  for (const bool windowed : ReadWindowedLayers(fields, layers, 6)) {
    list.push_back(windowed ? near : full);
  }
  return ReadFrame(fields, list);
}

// ---- LayerNorm and MLPs without a gate ----

std::int32_t FourTimes(LayeredFields& fields, const char* field) {
  const std::int32_t size = fields.Size(field);
  if (size > std::numeric_limits<std::int32_t>::max() / 4) {
    fields.Refuse(fmt::format("{} is too large", field));
  }
  return 4 * size;
}

// A model of equal layers with the widths that are named; `layer` has its biases and norms.
ModelSpec EqualNormedLayers(LayeredFields& fields, LayerSpec layer, const char* hidden,
                            std::int32_t layers) {
  ModelSpec model;
  model.norm = NormKind::kLayerNorm;
  model.hidden = fields.Size(hidden);
  model.vocab = fields.Size("vocab_size");
  if (model.hidden % layer.query_heads != 0) {
    fields.Refuse(fmt::format("{} {} is no multiple of the {} heads", hidden, model.hidden,
                              layer.query_heads));
  }
  layer.head_dim = model.hidden / layer.query_heads;
  layer.gated_mlp = false;
  SetLayers({{layers, layer}}, model);
  return model;
}

// The norm behind the embedding is not counted. ALiBi adds to scores that are computed anyway.
ModelSpec ReadBloom(LayeredFields& fields) {
  const char* const hidden = fields.Has("n_embed") ? "n_embed" : "hidden_size";
  LayerSpec layer;
  layer.query_heads = fields.Size(fields.Has("n_head") ? "n_head" : "num_attention_heads");
  layer.kv_heads = layer.query_heads;
  layer.qkv_bias = layer.output_bias = layer.mlp_bias = true;
  layer.intermediate = FourTimes(fields, hidden);
  const char* const count = fields.Has("n_layer") ? "n_layer" : "num_hidden_layers";
  ModelSpec model = EqualNormedLayers(fields, layer, hidden, ReadLayerCount(fields, count));
  model.max_position = fields.Or("seq_length", 2048);
  return model;
}

// Defaults: the class of transformers 5.24.
ModelSpec ReadFalcon(LayeredFields& fields) {
  LayerSpec layer;
  layer.query_heads = fields.Size("num_attention_heads");
  const bool is_new = fields.Flag("new_decoder_architecture", false);
  const bool shares_keys = fields.Flag("multi_query", true) && !is_new;
  layer.kv_heads = shares_keys ? 1 : fields.Or("num_kv_heads", layer.query_heads);
  if (layer.kv_heads == 0 || layer.query_heads % layer.kv_heads != 0) {
    fields.Refuse(fmt::format("num_attention_heads {} is no multiple of num_kv_heads {}",
                              layer.query_heads, layer.kv_heads));
  }
  layer.qkv_bias = layer.output_bias = layer.mlp_bias = fields.Flag("bias", false);
  // Attention and MLP side by side share a norm, or have one each.
  const std::int32_t side_by_side = fields.Or("num_ln_in_parallel_attn", is_new ? 2 : 1);
  if (fields.Flag("parallel_attn", true) && side_by_side != 2) layer.norms_per_layer = 1;
  layer.intermediate = fields.Has("ffn_hidden_size") ? fields.Size("ffn_hidden_size")
                                                     : FourTimes(fields, "hidden_size");
  ModelSpec model = EqualNormedLayers(fields, layer, "hidden_size", ReadLayerCount(fields));
  model.max_position = fields.Or("max_position_embeddings", 2048);
  return model;
}

constexpr std::array kWindowReaders = {
    LayeredReader{"gemma3_text", ReadGemma3, true},
    LayeredReader{"gemma3", ReadGemma3, true},
    LayeredReader{"gemma4_text", ReadGemma4, true},
    LayeredReader{"cohere2", ReadCohere2, true},
    LayeredReader{"exaone4", ReadExaone4},
    LayeredReader{"olmo3", ReadOlmo3},
    LayeredReader{"olmo2", ReadOlmo2},
    LayeredReader{"smollm3", ReadSmolLm3, true},
    LayeredReader{"seed_oss", ReadSeedOss},
    LayeredReader{"ministral3", ReadMinistral3},
    LayeredReader{"qwen3_vl_text", ReadQwen3Vl},
    LayeredReader{"bloom", ReadBloom, true},
    LayeredReader{"falcon", ReadFalcon, true},
};

}  // namespace

std::span<const LayeredReader> WindowReaders() { return kWindowReaders; }

}  // namespace twin
