// Source of the fields: config.json of the models in presets/.
#include <fmt/format.h>

#include <array>

#include <nlohmann/json.hpp>

#include "config/models/layered_readers.h"

namespace twin {
namespace {

ModelSpec ReadMixtures(LayeredFields& fields, const LayerSpec& heads, const MoeSpec& moe,
                       std::int32_t layers) {
  std::vector<LayerSpec> list;
  for (const bool sparse : ReadSparseLayers(fields, layers, 0)) {
    list.push_back(WithMlp(fields, heads, moe, sparse));
  }
  return ReadFrame(fields, list);
}

ModelSpec ReadGlm4(LayeredFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  LayerSpec heads = ReadPlainHeads(fields);
  heads.qkv_bias = fields.Flag("attention_bias", false);
  heads.qk_norm = fields.Flag("use_qk_norm", false);
  const MoeSpec moe =
      ReadExperts(fields, {.shared_count = "n_shared_experts", .selection_bias = true});
  return ReadMixtures(fields, heads, moe, layers);
}

ModelSpec ReadDots(LayeredFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  LayerSpec heads = ReadPlainHeads(fields);
  heads.qkv_bias = heads.output_bias = fields.Flag("attention_bias", false);
  heads.qk_norm = true;
  const MoeSpec moe =
      ReadExperts(fields, {.shared_count = "n_shared_experts", .selection_bias = true});
  return ReadMixtures(fields, heads, moe, layers);
}

ModelSpec ReadMiniMaxM2(LayeredFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  LayerSpec heads = ReadPlainHeads(fields);
  const std::string norm = fields.Text("qk_norm_type", "per_layer");
  if (norm != "per_layer") fields.Refuse("qk_norm_type must be per_layer");
  heads.full_qk_norm = fields.Flag("use_qk_norm", true);
  if (fields.Has("attn_type_list")) {
    for (const std::int32_t kind : fields.Numbers("attn_type_list", layers, 1)) {
      if (kind != 1) fields.Refuse("attn_type_list has 0, must be 1 (full attention) throughout");
    }
  }
  const MoeSpec moe =
      ReadExperts(fields, {.experts = "num_local_experts",
                           .width = "intermediate_size",
                           .shared_width = "shared_intermediate_size",
                           .selection_bias = fields.Flag("use_routing_bias", true)});
  return ReadMixtures(fields, heads, moe, layers);
}

ModelSpec ReadHunyuan(LayeredFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  LayerSpec heads = ReadPlainHeads(fields);
  heads.qkv_bias = heads.output_bias = fields.Flag("attention_bias", false);
  heads.qk_norm = fields.Flag("use_qk_norm", true);
  // A number, or a list with one number a layer that must be equal.
  const auto number = [&](const char* field) {
    const auto* const value = fields.Find(field);
    if (value == nullptr || !value->is_array()) return fields.Size(field);
    const auto numbers = fields.Numbers(field, layers, 1 << 30);
    for (const std::int32_t each : numbers) {
      if (each != numbers.front() || each == 0) {
        fields.Refuse(fmt::format("{} differs between layers, must be one positive number", field));
      }
    }
    return numbers.front();
  };
  MoeSpec moe;
  moe.shared_gate = false;
  moe.experts = fields.Size("num_experts");
  moe.experts_per_token = number("moe_topk");
  if (moe.experts_per_token > moe.experts) {
    fields.Refuse(
        fmt::format("moe_topk {} exceeds num_experts {}", moe.experts_per_token, moe.experts));
  }
  moe.expert_intermediate = number("moe_intermediate_size");
  if (fields.Has("num_shared_expert")) {
    if (number("num_shared_expert") != 1) fields.Refuse("num_shared_expert must be 1");
    moe.shared_intermediate = moe.expert_intermediate;
  }
  return ReadMixtures(fields, heads, moe, layers);
}

ModelSpec ReadGptOss(LayeredFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  LayerSpec full = ReadPlainHeads(fields);
  full.qkv_bias = full.output_bias = fields.Flag("attention_bias", true);
  full.sinks = true;
  full.moe = ReadExperts(fields, {.experts = "num_local_experts", .width = "intermediate_size"});
  full.moe.router_bias = full.moe.expert_bias = true;
  const std::int32_t window = ReadWindowSize(fields);
  std::vector<LayerSpec> list;
  for (const bool windowed : ReadWindowedLayers(fields, layers, 2)) {
    list.push_back(full);
    if (windowed) list.back().sliding_window = window;
  }
  return ReadFrame(fields, list);
}

ModelSpec ReadLlama4(LayeredFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  LayerSpec heads = ReadPlainHeads(fields);
  heads.qkv_bias = heads.output_bias = fields.Flag("attention_bias", false);
  fields.Know({"use_qk_norm"});  // a norm without numbers
  MoeSpec moe = ReadExperts(fields, {.experts = "num_local_experts", .width = "intermediate_size"});
  moe.shared_intermediate = moe.expert_intermediate;
  const std::int32_t step = fields.Or("interleave_moe_layer_step", 1);
  if (step == 0) fields.Refuse("interleave_moe_layer_step is 0, must be positive");
  const std::int32_t chunk = fields.Or("attention_chunk_size", 8192);
  if (chunk == 0) fields.Refuse("attention_chunk_size is 0, must be positive");
  std::vector<std::int32_t> rotary(static_cast<std::size_t>(layers));
  for (std::int32_t i = 0; i < layers; ++i) {
    rotary[static_cast<std::size_t>(i)] = (i + 1) % 4 != 0 ? 1 : 0;
  }
  const auto* const listed = fields.Find("no_rope_layers");
  if (listed != nullptr && !listed->empty()) rotary = fields.Numbers("no_rope_layers", layers, 1);
  if (fields.Has("layer_types")) {
    const auto names = fields.Names("layer_types", layers, {"chunked_attention", "full_attention"});
    for (std::size_t i = 0; i < names.size(); ++i) rotary[i] = names[i] == "full_attention" ? 0 : 1;
  }
  std::vector<LayerSpec> list;
  for (std::int32_t i = 0; i < layers; ++i) {
    LayerSpec layer = heads;
    if (rotary[static_cast<std::size_t>(i)] == 1) layer.chunk = chunk;
    if ((i + 1) % step == 0) {
      layer.moe = moe;
    } else {
      layer.intermediate = fields.Size("intermediate_size_mlp");
    }
    list.push_back(layer);
  }
  return ReadFrame(fields, list);
}

ModelSpec ReadMimo(LayeredFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  LayerSpec full = ReadPlainHeads(fields);
  full.value_dim = fields.Or("v_head_dim", 0);
  full.qkv_bias = fields.Flag("attention_bias", false);
  LayerSpec near = full;
  near.query_heads = fields.Or("swa_num_attention_heads", full.query_heads);
  near.kv_heads = fields.Or("swa_num_key_value_heads", full.kv_heads);
  near.head_dim = fields.Or("swa_head_dim", full.head_dim);
  near.value_dim = fields.Or("swa_v_head_dim", full.value_dim);
  near.sliding_window = ReadWindowSize(fields);
  if (fields.Or("attention_chunk_size", near.sliding_window) != near.sliding_window) {
    fields.Refuse("attention_chunk_size is not sliding_window, must be equal or left out");
  }
  near.sinks = fields.Flag("add_swa_attention_sink_bias", false);
  full.sinks = fields.Flag("add_full_attention_sink_bias", false);
  const MoeSpec moe =
      ReadExperts(fields, {.shared_count = "n_shared_experts", .selection_bias = true});
  const auto sparse = ReadSparseLayers(fields, layers, 0);
  const auto kinds = fields.Numbers("hybrid_layer_pattern", layers, 1);
  std::vector<LayerSpec> list;
  for (std::size_t i = 0; i < sparse.size(); ++i) {
    list.push_back(WithMlp(fields, kinds[i] == 1 ? near : full, moe, sparse[i]));
  }
  return ReadFrame(fields, list);
}

ModelSpec ReadPhiMoe(LayeredFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  LayerSpec heads = ReadPlainHeads(fields);
  heads.qkv_bias = fields.Flag("attention_bias", false);
  fields.Know({"sliding_window"});  // the context, so that it hides no key
  const MoeSpec moe =
      ReadExperts(fields, {.experts = "num_local_experts", .width = "intermediate_size"});
  return ReadMixtures(fields, heads, moe, layers);
}

// The text part of Qwen3-VL, which has the layers of Qwen3.
ModelSpec ReadQwen3VlMoe(LayeredFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  LayerSpec heads = ReadPlainHeads(fields);
  heads.qkv_bias = heads.output_bias = fields.Flag("attention_bias", false);
  heads.qk_norm = true;
  const MoeSpec moe = ReadExperts(fields, {.experts = "num_experts", .shared_gate = true});
  if (fields.Or("decoder_sparse_step", 1) != 1) fields.Refuse("decoder_sparse_step must be 1");
  return ReadMixtures(fields, heads, moe, layers);
}

constexpr std::array kMixtureReaders = {
    LayeredReader{"glm4_moe", ReadGlm4},
    LayeredReader{"glm4v_moe_text", ReadGlm4},
    LayeredReader{"qwen3_vl_moe_text", ReadQwen3VlMoe},
    LayeredReader{"dots1", ReadDots},
    LayeredReader{"solar_open", ReadGlm4},
    LayeredReader{"minimax_m2", ReadMiniMaxM2},
    LayeredReader{"hunyuan_v1_moe", ReadHunyuan, true},
    LayeredReader{"gpt_oss", ReadGptOss},
    LayeredReader{"llama4_text", ReadLlama4},
    LayeredReader{"mimo_v2_flash", ReadMimo},
    LayeredReader{"phimoe", ReadPhiMoe},
};

}  // namespace

std::span<const LayeredReader> MixtureReaders() { return kMixtureReaders; }

}  // namespace twin
