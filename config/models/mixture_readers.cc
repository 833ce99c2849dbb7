// Source of the fields: config.json of the models in presets/.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "config/models/families.h"
#include "config/models/layered_computation.h"
#include "config/models/layered_fields.h"
#include "core/printable.h"

namespace twin {
namespace {

using nlohmann::json;

ModelSpec ReadMixtures(const ConfigFields& fields, const LayerSpec& heads, const MoeSpec& moe,
                       std::int32_t layers) {
  std::vector<LayerSpec> list;
  for (const bool sparse : ReadSparseLayers(fields, layers, 0)) {
    list.push_back(WithMlp(fields, heads, moe, sparse));
  }
  return ReadFrame(fields, list);
}

ModelSpec ReadGlm4(const ConfigFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  LayerSpec heads = ReadPlainHeads(fields);
  heads.qkv_bias = fields.Flag("attention_bias", false);
  heads.qk_norm = fields.Flag("use_qk_norm", false);
  const MoeSpec moe =
      ReadExperts(fields, {.shared_count = "n_shared_experts", .selection_bias = true});
  return ReadMixtures(fields, heads, moe, layers);
}

ModelSpec ReadDots(const ConfigFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  LayerSpec heads = ReadBiasedHeads(fields);
  heads.qk_norm = true;
  const MoeSpec moe =
      ReadExperts(fields, {.shared_count = "n_shared_experts", .selection_bias = true});
  return ReadMixtures(fields, heads, moe, layers);
}

ModelSpec ReadMiniMaxM2(const ConfigFields& fields) {
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

ModelSpec ReadHunyuan(const ConfigFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  LayerSpec heads = ReadBiasedHeads(fields);
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

ModelSpec ReadGptOss(const ConfigFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  LayerSpec full = ReadBiasedHeads(fields, true);
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

ModelSpec ReadLlama4(const ConfigFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  LayerSpec heads = ReadBiasedHeads(fields);
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

ModelSpec ReadMimo(const ConfigFields& fields) {
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

ModelSpec ReadPhiMoe(const ConfigFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  LayerSpec heads = ReadPlainHeads(fields);
  heads.qkv_bias = fields.Flag("attention_bias", false);
  fields.Know({"sliding_window"});  // the context, so that it hides no key
  const MoeSpec moe =
      ReadExperts(fields, {.experts = "num_local_experts", .width = "intermediate_size"});
  return ReadMixtures(fields, heads, moe, layers);
}

// The text part of Qwen3-VL, which has the layers of Qwen3.
ModelSpec ReadQwen3VlMoe(const ConfigFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  LayerSpec heads = ReadBiasedHeads(fields);
  heads.qk_norm = true;
  const MoeSpec moe = ReadExperts(fields, {.experts = "num_experts", .shared_gate = true});
  if (fields.Or("decoder_sparse_step", 1) != 1) fields.Refuse("decoder_sparse_step must be 1");
  return ReadMixtures(fields, heads, moe, layers);
}

// ---- Names of fields, or places of them, of their own ----

// Source: the classes of transformers 5.23 and SGLang 0.5.23.

void RequireOff(const ConfigFields& fields, const char* field) {
  if (fields.Flag(field, false)) fields.Refuse(fmt::format("{} is true, must be false", field));
}

// The first of the names that the file has, else the first one. Refuses other names with another
// value.
const char* NameOf(const ConfigFields& fields, std::initializer_list<const char*> names) {
  fields.Know(names);
  const char* found = nullptr;
  for (const char* const name : names) {
    const json* const value = fields.Find(name);
    if (value == nullptr) continue;
    if (found == nullptr) found = name;
    if (*value != *fields.Find(found)) fields.Refuse(fmt::format("{} is not {}", name, found));
  }
  return found == nullptr ? *names.begin() : found;
}

ModelSpec ReadErnieMoe(const ConfigFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  RequireOff(fields, "use_bias");
  const LayerSpec heads = ReadPlainHeads(fields);
  if (!fields.Has("moe_num_shared_experts")) {
    fields.Refuse("moe_num_shared_experts is missing, must be an integer of 0 or more");
  }
  const MoeSpec moe =
      ReadExperts(fields, {.experts = NameOf(fields, {"moe_num_experts", "num_experts"}),
                           .per_token = NameOf(fields, {"moe_k", "num_experts_per_tok"}),
                           .shared_count = "moe_num_shared_experts",
                           .selection_bias = true});
  const std::int32_t start = fields.Or("moe_layer_start_index", 1);
  const std::int32_t interval = fields.Or("moe_layer_interval", 1);
  if (interval == 0) fields.Refuse("moe_layer_interval is 0, must be positive");
  const json* const last = fields.Find("moe_layer_end_index");
  const bool to_end = last == nullptr || *last == -1;
  const std::int32_t end = to_end ? layers - 1 : fields.Or("moe_layer_end_index", 0);
  std::vector<LayerSpec> list;
  for (std::int32_t i = 0; i < layers; ++i) {
    const bool sparse = (i + 1) % interval == 0 && i >= start && i <= end;
    list.push_back(WithMlp(fields, heads, moe, sparse));
  }
  return ReadFrame(fields, list);
}

// Ling 1 and 2, which share the type bailing_moe.
ModelSpec ReadBailingMoe(const ConfigFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  RequireOff(fields, "use_bias");
  RequireOff(fields, "multi_gate");
  LayerSpec heads = ReadPlainHeads(fields);
  heads.qkv_bias = fields.Flag("use_qkv_bias", false);
  heads.qk_norm = fields.Flag("use_qk_norm", false);
  const std::string router = fields.Text("router_type", "topN");
  if (router != "topN") {
    fields.Refuse(fmt::format("router_type is {}, must be topN", Printable(router)));
  }
  constexpr const char* kWidth = "moe_shared_expert_intermediate_size";
  const MoeSpec moe =
      ReadExperts(fields, {.experts = "num_experts",
                           .shared_count = "num_shared_experts",
                           .shared_width = fields.Has(kWidth) ? kWidth : nullptr,
                           .selection_bias = fields.Flag("moe_router_enable_expert_bias", false)});
  if (!fields.Flag("moe_router_enable_shared_expert", true)) {
    fields.Refuse("moe_router_enable_shared_expert is false, must be true");
  }
  std::vector<LayerSpec> list;
  for (const bool sparse : ReadSparseLayers(fields, layers, 0)) {
    list.push_back(WithMlp(fields, heads, moe, sparse));
  }
  return ReadFrame(fields, list);
}

// ---- MiniMax-M3 ----

struct BlockSparseLayers {
  BlockIndexSpec index;
  std::vector<bool> sparse;
};

// Layers by sparse_attention_config, of a file of MiniMax.
BlockSparseLayers ReadNestedIndex(const ConfigFields& config, std::int32_t layers) {
  BlockSparseLayers read;
  read.sparse.resize(static_cast<std::size_t>(layers));
  if (!config.Flag("use_sparse_attention", true)) return read;
  const auto kinds = config.Numbers("sparse_attention_freq", layers, 1);
  const bool lists_values = config.Has("sparse_disable_index_value");
  const auto without = lists_values ? config.Numbers("sparse_disable_index_value", layers, 1)
                                    : std::vector<std::int32_t>(kinds.size(), 1);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    read.sparse[i] = kinds[i] == 1;
    if (read.sparse[i] && without[i] == 0) {
      config.Refuse(fmt::format(
          "sparse_disable_index_value[{}] is 0, must be 1 in layers with sparse attention", i));
    }
  }
  read.index = {.heads = config.Size("sparse_num_index_heads"),
                .dim = config.Size("sparse_index_dim"),
                .block = config.Size("sparse_block_size"),
                .blocks = config.Size("sparse_topk_blocks")};
  config.RefuseOthers({"use_sparse_attention", "sparse_attention_freq",
                       "sparse_disable_index_value", "sparse_num_index_heads", "sparse_index_dim",
                       "sparse_block_size", "sparse_topk_blocks", "sparse_score_type",
                       "sparse_local_block"});
  return read;
}

// Layers by layer_types, of a file that transformers has written.
BlockSparseLayers ReadFlatIndex(const ConfigFields& fields, std::int32_t layers) {
  BlockSparseLayers read;
  for (const auto& kind :
       fields.Names("layer_types", layers, {"full_attention", "minimax_m3_sparse"})) {
    read.sparse.push_back(kind != "full_attention");
  }
  read.index = {.heads = fields.Size("index_n_heads"),
                .dim = fields.Size("index_head_dim"),
                .block = fields.Size("index_block_size"),
                .blocks = fields.Size("index_topk_blocks")};
  return read;
}

ModelSpec ReadMiniMaxM3(const ConfigFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  RequireOff(fields, "attention_output_gate");
  LayerSpec heads = ReadPlainHeads(fields);
  if (fields.Text("qk_norm_type", "per_head") != "per_head") {
    fields.Refuse("qk_norm_type must be per_head");
  }
  heads.qk_norm = fields.Flag("use_qk_norm", true);
  const MoeSpec moe =
      ReadExperts(fields, {.experts = "num_local_experts",
                           .width = NameOf(fields, {"intermediate_size", "moe_intermediate_size"}),
                           .shared_count = "n_shared_experts",
                           .shared_width = "shared_intermediate_size",
                           .selection_bias = fields.Flag("use_routing_bias", true)});
  fields.Know({"sparse_attention_config"});
  const auto nested = fields.Object("sparse_attention_config");
  const BlockSparseLayers blocks =
      nested ? ReadNestedIndex(*nested, layers) : ReadFlatIndex(fields, layers);
  const auto sparse = ReadSparseLayers(fields, layers, 0);
  std::vector<LayerSpec> list;
  for (std::size_t i = 0; i < sparse.size(); ++i) {
    LayerSpec layer = heads;
    if (blocks.sparse[i]) layer.block_index = blocks.index;
    if (sparse[i]) {
      layer.moe = moe;
    } else {
      layer.intermediate = fields.Size("dense_intermediate_size");
    }
    list.push_back(layer);
  }
  return ReadFrame(fields, list);
}

// ---- Step ----

// The numbers of a list, or of a text with commas between them.
std::vector<std::int32_t> ReadEnumeration(const ConfigFields& fields, const char* field,
                                          std::int32_t layers) {
  const json& value = *fields.Find(field);
  if (value.is_array()) {
    return fields.Numbers(field, static_cast<std::int32_t>(value.size()), layers - 1);
  }
  std::vector<std::int32_t> numbers;
  const std::string text = fields.Text(field, "");
  std::string_view rest = text;
  while (!rest.empty()) {
    std::int32_t number = -1;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    const auto read = static_cast<std::size_t>(end - rest.data());
    const bool ends = read == rest.size() || rest[read] == ',';
    if (error != std::errc() || !ends || number < 0 || number >= layers) {
      fields.Refuse(fmt::format("{} has '{}', must be layers from 0 to {} with commas between them",
                                field, Printable(std::string(rest.substr(0, rest.find(',')))),
                                layers - 1));
    }
    numbers.push_back(number);
    rest.remove_prefix(std::min(read + 1, rest.size()));
  }
  return numbers;
}

// For each of `layers`, some of which may be behind the model's own, whether it has a mixture.
std::vector<bool> ReadStepMixtures(const ConfigFields& fields, std::int32_t layers,
                                   std::int32_t first_sparse) {
  if (!fields.Has("moe_layers_enum")) return ReadSparseLayers(fields, layers, first_sparse);
  std::vector<bool> sparse(static_cast<std::size_t>(layers));
  for (const std::int32_t layer : ReadEnumeration(fields, "moe_layers_enum", layers)) {
    sparse[static_cast<std::size_t>(layer)] = true;
  }
  return sparse;
}

MoeSpec ReadStepExperts(const ConfigFields& fields, bool selection_bias) {
  MoeSpec moe = ReadExperts(
      fields, {.experts = NameOf(fields, {"moe_num_experts", "n_routed_experts", "num_experts"}),
               .per_token = NameOf(fields, {"moe_top_k", "num_experts_per_tok"}),
               .shared_width = NameOf(fields, {"share_expert_dim", "share_expert_dims"}),
               .selection_bias = selection_bias});
  if (fields.Or("n_shared_experts", 1) != 1) fields.Refuse("n_shared_experts must be 1");
  return moe;
}

// Step-3: multi-matrix factorised attention.
ModelSpec ReadStep3(const ConfigFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  LayerSpec heads;
  heads.query_heads = fields.Size("num_attention_heads");
  heads.kv_heads = fields.Size(NameOf(fields, {"num_attention_groups", "num_key_value_heads"}));
  heads.head_dim = fields.Size("head_dim");
  heads.query_rank = fields.Size("share_q_dim");
  const MoeSpec moe = ReadStepExperts(fields, false);
  std::vector<LayerSpec> list;
  for (const bool sparse : ReadStepMixtures(fields, layers, 0)) {
    list.push_back(WithMlp(fields, heads, moe, sparse));
  }
  return ReadFrame(fields, list,
                   NameOf(fields, {"max_position_embedding", "max_position_embeddings"}));
}

// The heads of layers with windows, where attention_other_setting names them.
LayerSpec ReadStepWindowHeads(const ConfigFields& fields, LayerSpec near) {
  near.sliding_window = ReadWindowSize(fields);
  near.query_heads = fields.Or("num_sliding_attention_heads", near.query_heads);
  fields.Know({"attention_other_setting"});
  const auto other = fields.Object("attention_other_setting");
  if (!other) return near;
  other->RefuseOthers({"attention_type", "num_attention_heads", "num_attention_groups", "head_dim",
                       "true_head_dim"});
  if (other->Text("attention_type").value_or("sliding_attention") != "sliding_attention") {
    other->Refuse("attention_type must be sliding_attention");
  }
  near.query_heads = other->OptionalSize("num_attention_heads").value_or(near.query_heads);
  near.kv_heads = other->OptionalSize("num_attention_groups").value_or(near.kv_heads);
  near.head_dim = other->OptionalSize("head_dim").value_or(near.head_dim);
  return near;
}

// Step-3.5 and Step-3.7. Their lists go on with the layers of the module of multi-token prediction.
ModelSpec ReadStep35(const ConfigFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  const std::int32_t modules =
      fields.Or(NameOf(fields, {"num_nextn_predict_layers", "num_mtp_layers"}), 0);
  const json* const types = fields.Find("layer_types");
  const bool goes_on = types != nullptr && types->is_array() && modules > 0 &&
                       std::cmp_equal(types->size(), std::int64_t{layers} + modules);
  const std::int32_t listed = goes_on ? layers + modules : layers;
  LayerSpec full;
  full.query_heads = fields.Size("num_attention_heads");
  full.kv_heads = fields.Size(NameOf(fields, {"num_attention_groups", "num_key_value_heads"}));
  full.head_dim = fields.Size("head_dim");
  full.qk_norm = true;
  full.qkv_bias = full.output_bias = fields.Flag("attention_bias", false);
  if (fields.Flag("use_head_wise_attn_gate", true)) full.output_gate = OutputGate::kHead;
  const LayerSpec near = ReadStepWindowHeads(fields, full);
  const MoeSpec moe = ReadStepExperts(fields, fields.Flag("use_moe_router_bias", true));
  const auto windowed = ReadWindowedLayers(fields, listed, 1);
  const auto sparse = ReadStepMixtures(fields, listed, 3);
  std::vector<LayerSpec> list;
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    list.push_back(WithMlp(fields, windowed[i] ? near : full, moe, sparse[i]));
  }
  std::optional<LayerSpec> module;
  if (goes_on) {
    module = list[static_cast<std::size_t>(layers)];
    list.resize(static_cast<std::size_t>(layers));
  }
  ModelSpec model = ReadFrame(fields, list);
  model.mtp_layer = module;
  return model;
}

constexpr std::array kMixtureFamilies = {
    ModelFamily{.model_type = "glm4_moe", .read_layers = ReadGlm4},
    ModelFamily{.model_type = "glm4v_moe_text", .read_layers = ReadGlm4},
    ModelFamily{.model_type = "qwen3_vl_moe_text", .read_layers = ReadQwen3VlMoe},
    ModelFamily{.model_type = "dots1", .read_layers = ReadDots},
    ModelFamily{.model_type = "solar_open", .read_layers = ReadGlm4},
    ModelFamily{.model_type = "minimax_m2",
                .read_layers = ReadMiniMaxM2,
                .read_computation = ReadMiniMaxM2Computation,
                .naming = WeightNaming::kMiniMax,
                .rope_theta = 5e6},
    ModelFamily{
        .model_type = "hunyuan_v1_moe", .read_layers = ReadHunyuan, .tied_embeddings = true},
    ModelFamily{.model_type = "gpt_oss",
                .read_layers = ReadGptOss,
                .read_computation = ReadGptOssComputation,
                .naming = WeightNaming::kGptOss,
                .norm_epsilon = 1e-5,
                .rope_theta = 150000},
    ModelFamily{.model_type = "llama4_text", .read_layers = ReadLlama4},
    ModelFamily{.model_type = "mimo_v2_flash", .read_layers = ReadMimo},
    ModelFamily{.model_type = "phimoe",
                .read_layers = ReadPhiMoe,
                .counts = "approximate: without the biases of norms, attention output and head"},
    ModelFamily{.model_type = "ernie4_5_moe", .read_layers = ReadErnieMoe, .tied_embeddings = true},
    ModelFamily{
        .model_type = "bailing_moe", .read_layers = ReadBailingMoe, .published_as = "Ling 1 and 2"},
    ModelFamily{
        .model_type = "bailing_moe_v2", .read_layers = ReadBailingMoe, .published_as = "Ling 2"},
    ModelFamily{.model_type = "minimax_m3", .read_layers = ReadMiniMaxM3},
    ModelFamily{.model_type = "minimax_m3_vl", .read_layers = ReadMiniMaxM3},
    ModelFamily{.model_type = "minimax_m3_vl_text", .read_layers = ReadMiniMaxM3},
    ModelFamily{.model_type = "step3_text", .read_layers = ReadStep3},
    ModelFamily{.model_type = "step3p5", .read_layers = ReadStep35},
    ModelFamily{.model_type = "step3p7", .read_layers = ReadStep35},
};

}  // namespace

std::span<const ModelFamily> MixtureFamilies() { return kMixtureFamilies; }

}  // namespace twin
