// Source of the fields: config.json of the models in presets/.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "config/models/families.h"
#include "config/models/layered_computation.h"
#include "config/models/layered_fields.h"

namespace twin {
namespace {

// Layers of one MLP width whose attention sees all keys or a window.
struct DenseFamily {
  bool has_bias = false;       // attention_bias of all projections
  bool has_head_norm = false;  // qk_norm
  bool has_full_norm = false;  // full_qk_norm
  std::int32_t norms = 2;
  std::int32_t period = 0;    // layers from one without a window to the next; 0: no layer has one
  bool names_period = false;  // sliding_window_pattern may be another period
};

std::int32_t ReadPeriod(const ConfigFields& fields, std::int32_t absent) {
  const std::int32_t period = fields.Or("sliding_window_pattern", absent);
  if (period == 0) fields.Refuse("sliding_window_pattern is 0, must be positive");
  return period;
}

ModelSpec ReadEqual(const ConfigFields& fields, LayerSpec layer) {
  layer.intermediate = fields.Size("intermediate_size");
  const std::int32_t layers = ReadLayerCount(fields);
  return ReadFrame(fields, std::vector<LayerSpec>(static_cast<std::size_t>(layers), layer));
}

ModelSpec ReadWindowed(const ConfigFields& fields, LayerSpec full, std::int32_t period) {
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

template <DenseFamily kFamily>
ModelSpec ReadDense(const ConfigFields& fields) {
  LayerSpec layer = kFamily.has_bias ? ReadBiasedHeads(fields) : ReadPlainHeads(fields);
  layer.qk_norm = kFamily.has_head_norm;
  layer.full_qk_norm = kFamily.has_full_norm;
  layer.norms_per_layer = kFamily.norms;
  if (kFamily.period == 0) return ReadEqual(fields, layer);
  return ReadWindowed(fields, layer,
                      kFamily.names_period ? ReadPeriod(fields, kFamily.period) : kFamily.period);
}

ModelSpec ReadExaone4(const ConfigFields& fields) {
  LayerSpec full = ReadPlainHeads(fields);
  full.qk_norm = true;
  std::int32_t period = 4;
  const auto* const pattern = fields.Find("sliding_window_pattern");
  if (pattern != nullptr && pattern->is_string()) {
    if (*pattern != "LLLG") fields.Refuse("sliding_window_pattern must be LLLG or a number");
  } else {
    period = ReadPeriod(fields, 4);
  }
  return ReadWindowed(fields, full, period);
}

ModelSpec ReadSmolLm3(const ConfigFields& fields) {
  LayerSpec layer = ReadBiasedHeads(fields);
  if (fields.Flag("use_sliding_window", false)) fields.Refuse("use_sliding_window must be false");
  fields.Know({"no_rope_layers", "layer_types", "sliding_window"});
  return ReadEqual(fields, layer);
}

ModelSpec ReadSeedOss(const ConfigFields& fields) {
  LayerSpec layer = ReadPlainHeads(fields);
  layer.qkv_bias = fields.Flag("attention_bias", true);
  layer.output_bias = fields.Flag("attention_out_bias", false);
  return ReadEqual(fields, layer);
}

ModelSpec ReadGemma4(const ConfigFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  LayerSpec near = ReadBiasedHeads(fields);
  near.qk_norm = true;
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

std::int32_t FourTimes(const ConfigFields& fields, const char* field) {
  const std::int32_t size = fields.Size(field);
  if (size > std::numeric_limits<std::int32_t>::max() / 4) {
    fields.Refuse(fmt::format("{} is too large", field));
  }
  return 4 * size;
}

// A model of equal layers with the widths that are named; `layer` has its biases and norms.
ModelSpec EqualNormedLayers(const ConfigFields& fields, LayerSpec layer, const char* hidden,
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
ModelSpec ReadBloom(const ConfigFields& fields) {
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
ModelSpec ReadFalcon(const ConfigFields& fields) {
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

// ---- Blocks of neural architecture search ----

// Source: config.json of nvidia/Llama-3_3-Nemotron-Super-49B-v1 and
// nvidia/Llama-3_1-Nemotron-Ultra-253B-v1; the width of an MLP: release 0.5.23 of SGLang.
enum class BlockPart : std::uint8_t { kNone, kLinear, kWhole };

// An attention or MLP that may be missing, or one matrix [hidden, hidden].
BlockPart ReadBlockPart(const ConfigFields& part) {
  if (part.Flag("no_op", false)) return BlockPart::kNone;
  return part.Flag("replace_with_linear", false) ? BlockPart::kLinear : BlockPart::kWhole;
}

// ffn_mult is relative to an MLP without a gate: two thirds of it, in multiples of 256.
std::int32_t MlpWidthOf(const ConfigFields& mlp, std::int32_t hidden) {
  if (mlp.Has("intermediate_size")) return mlp.Size("intermediate_size");
  constexpr double kMultiple = 256;
  const double whole = std::floor(2 * mlp.Positive("ffn_mult") * hidden / 3);
  const double width = std::ceil(whole / kMultiple) * kMultiple;
  if (width < 1 || width > std::numeric_limits<std::int32_t>::max()) {
    mlp.Refuse(
        fmt::format("ffn_mult makes the MLP {:.0f} wide, must be from 1 to 2^31 - 1", width));
  }
  return static_cast<std::int32_t>(width);
}

void ReadBlockAttention(const ConfigFields& attention, const LayerSpec& heads, LayerSpec& layer) {
  attention.RefuseOthers({"no_op", "replace_with_linear", "n_heads_in_group"});
  const BlockPart part = ReadBlockPart(attention);
  if (part == BlockPart::kNone) return;
  ++layer.norms_per_layer;
  if (part == BlockPart::kLinear) {
    ++layer.linears;
    return;
  }
  const std::int32_t in_group = attention.Size("n_heads_in_group");
  if (heads.query_heads % in_group != 0) {
    attention.Refuse(fmt::format("n_heads_in_group is {}, must divide num_attention_heads {}",
                                 in_group, heads.query_heads));
  }
  layer.query_heads = heads.query_heads;
  layer.kv_heads = heads.query_heads / in_group;
  layer.head_dim = heads.head_dim;
  layer.qkv_bias = layer.output_bias = heads.qkv_bias;
}

ConfigFields PartOf(const ConfigFields& block, const char* field) {
  const auto part = block.Object(field);
  if (!part) block.Refuse(fmt::format("{} is missing, must be an object", field));
  return *part;
}

ModelSpec ReadNemotronNas(const ConfigFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  const std::int32_t hidden = fields.Size("hidden_size");
  LayerSpec heads = ReadPlainHeads(fields);
  heads.qkv_bias = fields.Flag("attention_bias", false);
  const bool mlp_bias = fields.Flag("mlp_bias", false);
  const std::vector<ConfigFields> blocks = fields.Blocks("block_configs", layers);
  std::vector<LayerSpec> list;
  for (const ConfigFields& block : blocks) {
    block.RefuseOthers({"attention", "ffn"});
    LayerSpec layer;
    layer.norms_per_layer = 0;
    ReadBlockAttention(PartOf(block, "attention"), heads, layer);
    const ConfigFields mlp = PartOf(block, "ffn");
    mlp.RefuseOthers({"no_op", "replace_with_linear", "ffn_mult", "intermediate_size"});
    const BlockPart part = ReadBlockPart(mlp);
    if (part != BlockPart::kNone) ++layer.norms_per_layer;
    if (part == BlockPart::kLinear) ++layer.linears;
    if (part == BlockPart::kWhole) {
      layer.intermediate = MlpWidthOf(mlp, hidden);
      layer.mlp_bias = mlp_bias;
    }
    list.push_back(layer);
  }
  return ReadFrame(fields, list);
}

constexpr auto* kGemma3 = ReadDense<DenseFamily{
    .has_bias = true, .has_head_norm = true, .norms = 4, .period = 6, .names_period = true}>;

constexpr std::array kDenseFamilies = {
    ModelFamily{.model_type = "gemma3_text",
                .read_layers = kGemma3,
                .positions_are_scaled = true,
                .tied_embeddings = true},
    ModelFamily{.model_type = "gemma3",
                .read_layers = kGemma3,
                .positions_are_scaled = true,
                .tied_embeddings = true},
    ModelFamily{.model_type = "gemma4_text", .read_layers = ReadGemma4, .tied_embeddings = true},
    ModelFamily{
        .model_type = "cohere2",
        .read_layers =
            ReadDense<DenseFamily{.has_bias = true, .norms = 1, .period = 4, .names_period = true}>,
        .tied_embeddings = true},
    ModelFamily{.model_type = "exaone4", .read_layers = ReadExaone4},
    ModelFamily{.model_type = "olmo3",
                .read_layers =
                    ReadDense<DenseFamily{.has_bias = true, .has_full_norm = true, .period = 4}>},
    ModelFamily{.model_type = "olmo2",
                .read_layers = ReadDense<DenseFamily{.has_bias = true, .has_full_norm = true}>,
                .read_computation = ReadOlmo2Computation,
                .norm_epsilon = 1e-5},
    ModelFamily{.model_type = "smollm3", .read_layers = ReadSmolLm3, .tied_embeddings = true},
    ModelFamily{.model_type = "seed_oss", .read_layers = ReadSeedOss},
    ModelFamily{.model_type = "ministral3", .read_layers = ReadDense<DenseFamily{}>},
    ModelFamily{.model_type = "qwen3_vl_text",
                .read_layers = ReadDense<DenseFamily{.has_bias = true, .has_head_norm = true}>},
    ModelFamily{.model_type = "bloom",
                .read_layers = ReadBloom,
                .counts = "approximate: without the norm behind the embedding",
                .tied_embeddings = true},
    ModelFamily{.model_type = "falcon", .read_layers = ReadFalcon, .tied_embeddings = true},
    ModelFamily{
        .model_type = "nemotron-nas", .read_layers = ReadNemotronNas, .published_as = "DeciLM"},
};

}  // namespace

std::span<const ModelFamily> DenseFamilies() { return kDenseFamilies; }

}  // namespace twin
