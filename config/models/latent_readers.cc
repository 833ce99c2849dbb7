// Source of the fields: config.json of the repositories that core/latent_presets.cc names.
#include <fmt/format.h>

#include <array>

#include <nlohmann/json.hpp>

#include "config/models/layered_readers.h"

namespace twin {
namespace {

ModelSpec ReadLatentMixture(LayeredFields& fields, bool selection_bias, bool index) {
  const std::int32_t layers = ReadLayerCount(fields);
  LatentSpec latent = ReadLatentShape(fields);
  if (index) {
    latent.index_heads = fields.Size("index_n_heads");
    latent.index_dim = fields.Size("index_head_dim");
    latent.index_keys = fields.Size("index_topk");
  }
  const std::int32_t heads = fields.Size("num_attention_heads");
  const MoeSpec moe =
      ReadExperts(fields, {.shared_count = "n_shared_experts", .selection_bias = selection_bias});
  const auto sparse = ReadSparseLayers(fields, layers, 0);
  std::vector<std::string> indexers(sparse.size(), "full");
  if (index && fields.Has("indexer_types")) {
    indexers = fields.Names("indexer_types", layers, {"full", "shared"});
    if (indexers.front() != "full") fields.Refuse("indexer_types[0] is shared, must be full");
  }
  std::vector<LayerSpec> list;
  for (std::size_t i = 0; i < sparse.size(); ++i) {
    latent.reuses_index = indexers[i] == "shared";
    list.push_back(WithMlp(fields, LatentLayer(heads, latent), moe, sparse[i]));
  }
  return ReadFrame(fields, list);
}

ModelSpec ReadDeepSeekV2(LayeredFields& fields) {
  return ReadLatentMixture(fields, fields.Text("topk_method", "") == "noaux_tc", false);
}
ModelSpec ReadDeepSeekV3(LayeredFields& fields) { return ReadLatentMixture(fields, true, false); }
ModelSpec ReadDeepSeekV32(LayeredFields& fields) { return ReadLatentMixture(fields, true, true); }

// A published layer is two sublayers and a mixture beside the second one.
ModelSpec ReadLongCat(LayeredFields& fields) {
  const std::int32_t layers =
      ReadLayerCount(fields, fields.Has("num_layers") ? "num_layers" : "num_hidden_layers");
  LayerSpec dense = LatentLayer(fields.Size("num_attention_heads"), ReadLatentShape(fields));
  dense.intermediate = fields.Size("ffn_hidden_size");
  LayerSpec mixture;
  mixture.norms_per_layer = 0;
  mixture.moe = ReadExperts(
      fields, {.per_token = "moe_topk", .width = "expert_ffn_hidden_size", .selection_bias = true});
  mixture.moe.identity_experts = fields.Or("zero_expert_num", 0);
  std::vector<LayerSpec> list;
  for (std::int32_t i = 0; i < layers; ++i) list.insert(list.end(), {dense, dense, mixture});
  return ReadFrame(fields, list);
}

ModelSpec ReadKimiLinear(LayeredFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  fields.Know({"linear_attn_config"});
  const auto linear = fields.config().Object("linear_attn_config");
  if (!linear) fields.Refuse("linear_attn_config is missing, must be an object");
  RecurrentSpec delta{.kind = RecurrentKind::kKimiDelta};
  delta.key_heads = delta.value_heads = linear->Size("num_heads");
  delta.key_dim = delta.value_dim = linear->Size("head_dim");
  delta.convolution = linear->OptionalSize("short_conv_kernel_size").value_or(4);
  LayerSpec recurrent;
  recurrent.recurrent = delta;
  const LayerSpec full = LatentLayer(fields.Size("num_attention_heads"), ReadLatentShape(fields));
  const MoeSpec moe = ReadExperts(fields, {.experts = "num_experts",
                                           .per_token = "num_experts_per_token",
                                           .shared_count = "num_shared_experts",
                                           .selection_bias = true});
  const auto sparse = ReadSparseLayers(fields, layers, 0);
  std::vector<bool> is_full(sparse.size());
  for (const std::int32_t layer : linear->TokenIds("full_attn_layers")) {
    if (layer < 1 || layer > layers) {
      linear->Refuse(fmt::format("full_attn_layers has {}, must be from 1 to num_hidden_layers {}",
                                 layer, layers));
    }
    is_full[static_cast<std::size_t>(layer - 1)] = true;
  }
  std::vector<LayerSpec> list;
  for (std::size_t i = 0; i < sparse.size(); ++i) {
    list.push_back(WithMlp(fields, is_full[i] ? full : recurrent, moe, sparse[i]));
  }
  const char* const positions =
      fields.Has("model_max_length") ? "model_max_length" : "max_position_embeddings";
  return ReadFrame(fields, list, positions);
}

constexpr std::array kLatentReaders = {
    LayeredReader{"deepseek_v2", ReadDeepSeekV2},   LayeredReader{"deepseek_v3", ReadDeepSeekV3},
    LayeredReader{"deepseek_v32", ReadDeepSeekV32}, LayeredReader{"kimi_k2", ReadDeepSeekV3},
    LayeredReader{"kimi_k25", ReadDeepSeekV3},      LayeredReader{"glm4_moe_lite", ReadDeepSeekV3},
    LayeredReader{"glm_moe_dsa", ReadDeepSeekV32},  LayeredReader{"longcat_flash", ReadLongCat},
    LayeredReader{"kimi_linear", ReadKimiLinear},
};

}  // namespace

std::span<const LayeredReader> LatentReaders() { return kLatentReaders; }

}  // namespace twin
