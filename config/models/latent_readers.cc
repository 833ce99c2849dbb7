// Source of the fields: config.json of the models in presets/.
#include <fmt/format.h>

#include <array>

#include <nlohmann/json.hpp>

#include "config/models/families.h"
#include "config/models/layered_computation.h"
#include "config/models/layered_fields.h"
#include "core/printable.h"

namespace twin {
namespace {

using nlohmann::json;

ModelSpec ReadLatentMixture(const ConfigFields& fields, bool selection_bias, bool index) {
  const std::int32_t layers = ReadLayerCount(fields);
  LatentSpec latent = ReadLatentShape(fields);
  if (index) {
    latent.index_heads = fields.Size("index_n_heads");
    latent.index_dim = fields.Size("index_head_dim");
    latent.index_keys = fields.Size("index_topk");
    if (fields.Has("layer_types")) {
      (void)fields.Names("layer_types", layers, {"deepseek_sparse_attention"});
    }
  }
  const std::int32_t heads = fields.Size("num_attention_heads");
  const MoeSpec moe =
      ReadExperts(fields, {.shared_count = "n_shared_experts", .selection_bias = selection_bias});
  // Some files name the experts twice.
  if (fields.Or("num_experts", moe.experts) != moe.experts) {
    fields.Refuse("num_experts is not n_routed_experts, must be equal or left out");
  }
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

ModelSpec ReadDeepSeekV2(const ConfigFields& fields) {
  return ReadLatentMixture(fields, fields.Text("topk_method", "") == "noaux_tc", false);
}
ModelSpec ReadMistral4(const ConfigFields& fields) {
  return ReadLatentMixture(fields, false, false);
}
ModelSpec ReadDeepSeekV3(const ConfigFields& fields) {
  return ReadLatentMixture(fields, true, false);
}
ModelSpec ReadDeepSeekV32(const ConfigFields& fields) {
  return ReadLatentMixture(fields, true, true);
}

// A published layer is two sublayers and a mixture beside the second one.
ModelSpec ReadLongCat(const ConfigFields& fields) {
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

ModelSpec ReadKimiLinear(const ConfigFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  fields.Know({"linear_attn_config"});
  const auto linear = fields.Object("linear_attn_config");
  if (!linear) fields.Refuse("linear_attn_config is missing, must be an object");
  RecurrentSpec delta{.kind = RecurrentKind::kKimiDelta};
  delta.key_heads = delta.value_heads = linear->Size("num_heads");
  delta.key_dim = delta.value_dim = linear->Size("head_dim");
  delta.convolution = linear->OptionalSize("short_conv_kernel_size").value_or(4);
  delta.full_rank_gate = linear->Flag("use_full_rank_gate", false);
  LayerSpec recurrent;
  recurrent.recurrent = delta;
  LayerSpec full = LatentLayer(fields.Size("num_attention_heads"), ReadLatentShape(fields));
  if (fields.Flag("mla_use_output_gate", false)) full.output_gate = OutputGate::kFull;
  MoeSpec moe = ReadExperts(fields, {.experts = "num_experts",
                                     .per_token = "num_experts_per_token",
                                     .shared_count = "num_shared_experts",
                                     .selection_bias = true});
  moe.latent = fields.Or("routed_expert_hidden_size", 0);
  // The residual over blocks of layers is not counted (docs/models.md).
  fields.Know({"attn_res_block_size"});
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

// The last layer of each group has latent attention, the others Kimi Delta Attention.
std::vector<bool> ReadGroupEnds(const ConfigFields& fields, std::int32_t layers) {
  std::vector<bool> ends(static_cast<std::size_t>(layers));
  const json* const size = fields.Find("layer_group_size");
  if (fields.Has("layer_types")) {
    const auto names = fields.Names("layer_types", layers, {"linear_attention", "full_attention"});
    for (std::size_t i = 0; i < names.size(); ++i) ends[i] = names[i] == "full_attention";
  } else if (size != nullptr && size->is_array()) {
    const auto recurrent = fields.Numbers("layer_group_size", layers, 1);
    for (std::size_t i = 0; i < recurrent.size(); ++i) ends[i] = recurrent[i] == 0;
  } else {
    const auto group = static_cast<std::size_t>(fields.Size("layer_group_size"));
    for (std::size_t i = group - 1; i < ends.size(); i += group) ends[i] = true;
  }
  return ends;
}

// Ling 3. Its predecessors share the type, but have lightning attention.
ModelSpec ReadBailingHybrid(const ConfigFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  if (!fields.Has("short_conv_kernel_size")) {
    fields.Refuse(
        "short_conv_kernel_size is missing, must be positive: layers without convolutions, as Ling "
        "2.5 has, are not read");
  }
  for (const char* const field : {"use_bias", "use_qkv_bias", "attention_bias"}) {
    if (fields.Flag(field, false)) fields.Refuse(fmt::format("{} must be false", field));
  }
  const std::int32_t heads = fields.Size("num_attention_heads");
  RecurrentSpec delta{.kind = RecurrentKind::kKimiDelta};
  delta.key_heads = delta.value_heads = heads;
  delta.key_dim = delta.value_dim = fields.Size("head_dim");
  delta.convolution = fields.Size("short_conv_kernel_size");
  delta.full_rank_gate = delta.full_rank_decay = fields.Flag("no_kda_lora", true);
  LayerSpec recurrent;
  recurrent.recurrent = delta;
  LayerSpec full = LatentLayer(heads, ReadLatentShape(fields));
  const std::string gate = fields.Text("gated_attention_proj_granularity_type", "head_wise");
  if (gate != "head_wise" && gate != "element_wise") {
    fields.Refuse(
        fmt::format("gated_attention_proj_granularity_type is {}, must be head_wise or "
                    "element_wise",
                    Printable(gate)));
  }
  full.output_gate = gate == "head_wise" ? OutputGate::kHead : OutputGate::kFull;
  fields.Know({"use_qk_norm"});
  constexpr const char* kWidth = "moe_shared_expert_intermediate_size";
  const MoeSpec moe =
      ReadExperts(fields, {.experts = "num_experts",
                           .shared_count = "num_shared_experts",
                           .shared_width = fields.Has(kWidth) ? kWidth : nullptr,
                           .selection_bias = fields.Flag("moe_router_enable_expert_bias", true)});
  const auto sparse = ReadSparseLayers(fields, layers, 0);
  const auto ends = ReadGroupEnds(fields, layers);
  std::vector<LayerSpec> list;
  for (std::size_t i = 0; i < sparse.size(); ++i) {
    list.push_back(WithMlp(fields, ends[i] ? full : recurrent, moe, sparse[i]));
  }
  return ReadFrame(fields, list);
}

constexpr std::array kLatentFamilies = {
    ModelFamily{.model_type = "deepseek_v2",
                .read_layers = ReadDeepSeekV2,
                .read_computation = ReadDeepSeekV2Computation,
                .naming = WeightNaming::kDeepSeek},
    ModelFamily{.model_type = "deepseek_v3",
                .read_layers = ReadDeepSeekV3,
                .read_computation = ReadDeepSeekV3Computation,
                .naming = WeightNaming::kDeepSeek},
    ModelFamily{.model_type = "deepseek_v32", .read_layers = ReadDeepSeekV32},
    // The released modelling code of Kimi-K2 is that of DeepSeek-V3.
    ModelFamily{.model_type = "kimi_k2",
                .read_layers = ReadDeepSeekV3,
                .read_computation = ReadDeepSeekV3Computation,
                .naming = WeightNaming::kDeepSeek},
    ModelFamily{.model_type = "kimi_k25", .read_layers = ReadDeepSeekV3},
    ModelFamily{.model_type = "glm4_moe_lite", .read_layers = ReadDeepSeekV3},
    ModelFamily{.model_type = "glm_moe_dsa", .read_layers = ReadDeepSeekV32},
    ModelFamily{
        .model_type = "longcat_flash",
        .read_layers = ReadLongCat,
        .counts = "approximate: a token uses all its experts, although some return their input"},
    ModelFamily{.model_type = "mistral4", .read_layers = ReadMistral4},
    ModelFamily{
        .model_type = "kimi_linear",
        .read_layers = ReadKimiLinear,
        .counts = "exact; approximate for `kimi_k3`: without the residual over blocks of layers"},
    ModelFamily{
        .model_type = "bailing_hybrid", .read_layers = ReadBailingHybrid, .published_as = "Ling 3"},
};

}  // namespace

std::span<const ModelFamily> LatentFamilies() { return kLatentFamilies; }

}  // namespace twin
