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

// Bytes of a number of a state in the format that the field names; 0 without the field.
std::int32_t ReadStateBytes(const ConfigFields& fields, const char* field) {
  const std::string format = fields.Text(field, "");
  if (format.empty()) return 0;
  if (format == "float32") return 4;
  if (format == "bfloat16" || format == "float16") return 2;
  fields.Refuse(
      fmt::format("{} is {}, must be float32, bfloat16 or float16", field, Printable(format)));
}

ModelSpec ReadQwenHybrid(const ConfigFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  LayerSpec full = ReadPlainHeads(fields);
  full.qk_norm = true;
  full.output_gate = fields.Flag("attn_output_gate", true) ? OutputGate::kFull : OutputGate::kNone;
  full.qkv_bias = full.output_bias = fields.Flag("attention_bias", false);
  LayerSpec recurrent;
  recurrent.recurrent =
      RecurrentSpec{.key_heads = fields.Size("linear_num_key_heads"),
                    .value_heads = fields.Size("linear_num_value_heads"),
                    .key_dim = fields.Size("linear_key_head_dim"),
                    .value_dim = fields.Size("linear_value_head_dim"),
                    .convolution = fields.Or("linear_conv_kernel_dim", 4),
                    .state_value_bytes = ReadStateBytes(fields, "mamba_ssm_dtype")};
  const bool sparse = fields.Has("num_experts");
  MoeSpec moe;
  if (sparse) {
    moe = ReadExperts(fields, {.experts = "num_experts",
                               .shared_width = "shared_expert_intermediate_size",
                               .shared_gate = true});
    if (fields.Or("decoder_sparse_step", 1) != 1) fields.Refuse("decoder_sparse_step must be 1");
  }
  std::vector<bool> is_full(static_cast<std::size_t>(layers));
  if (fields.Has("layer_types")) {
    const auto names = fields.Names("layer_types", layers, {"linear_attention", "full_attention"});
    for (std::size_t i = 0; i < names.size(); ++i) is_full[i] = names[i] == "full_attention";
    fields.Know({"full_attention_interval"});
  } else {
    const std::int32_t interval = fields.Or("full_attention_interval", 4);
    if (interval == 0) fields.Refuse("full_attention_interval is 0, must be positive");
    for (std::int32_t i = interval - 1; i < layers; i += interval) {
      is_full[static_cast<std::size_t>(i)] = true;
    }
  }
  std::vector<LayerSpec> list;
  for (const bool each : is_full) {
    list.push_back(WithMlp(fields, each ? full : recurrent, moe, sparse));
  }
  return ReadFrame(fields, list);
}

LayerSpec ReadMamba2(const ConfigFields& fields, std::array<const char*, 5> names) {
  LayerSpec layer;
  layer.recurrent = RecurrentSpec{.kind = RecurrentKind::kMamba2,
                                  .key_heads = fields.Size(names[2]),
                                  .value_heads = fields.Size(names[0]),
                                  .key_dim = fields.Size(names[3]),
                                  .value_dim = fields.Size(names[1]),
                                  .convolution = fields.Or(names[4], 4)};
  return layer;
}

// The kinds of layers_block_type, one a layer, as letters of hybrid_override_pattern.
std::string ReadBlockTypes(const ConfigFields& fields, const char* field, std::int32_t layers) {
  std::string letters;
  for (const std::string& kind :
       fields.Names(field, layers, {"mamba", "attention", "moe", "mlp"})) {
    letters += kind == "mamba" ? 'M' : kind == "attention" ? '*' : kind == "moe" ? 'E' : '-';
  }
  return letters;
}

// One letter a layer. Files with layers_block_type may leave out the number of layers.
std::string ReadNemotronPattern(const ConfigFields& fields) {
  const std::string pattern = fields.Text("hybrid_override_pattern", "");
  const nlohmann::json* const kinds = fields.Find("layers_block_type");
  if (kinds != nullptr && kinds->is_array() && !fields.Has("num_hidden_layers")) {
    return ReadBlockTypes(fields, "layers_block_type", static_cast<std::int32_t>(kinds->size()));
  }
  const std::int32_t layers = ReadLayerCount(fields);
  if (kinds != nullptr) return ReadBlockTypes(fields, "layers_block_type", layers);
  if (pattern.size() == static_cast<std::size_t>(layers)) return pattern;
  fields.Refuse(fmt::format("hybrid_override_pattern has {} letters, must have {}, one a layer",
                            pattern.size(), layers));
}

// Whether the file has a module of multi-token prediction, of attention and a mixture.
bool ReadNemotronModule(const ConfigFields& fields) {
  if (fields.Or("num_nextn_predict_layers", 0) == 0) return false;
  const bool lists = fields.Has("mtp_layers_block_type");
  const std::string letters = lists ? ReadBlockTypes(fields, "mtp_layers_block_type", 2)
                                    : fields.Text("mtp_hybrid_override_pattern", "");
  if (!letters.empty() && letters != "*E") {
    fields.Refuse(fmt::format("the module of multi-token prediction has layers {}, must be *E",
                              Printable(letters)));
  }
  return !letters.empty();
}

// Older files call the size of a head attention_head_dim.
LayerSpec ReadNemotronHeads(const ConfigFields& fields) {
  LayerSpec layer = ReadPlainHeads(fields);
  if (!fields.Has("head_dim")) layer.head_dim = fields.Or("attention_head_dim", layer.head_dim);
  layer.qkv_bias = layer.output_bias = fields.Flag("attention_bias", false);
  return layer;
}

ModelSpec ReadNemotronH(const ConfigFields& fields) {
  const std::string pattern = ReadNemotronPattern(fields);
  LayerSpec mlp;
  mlp.gated_mlp = false;
  LayerSpec experts = mlp;
  if (pattern.find('E') != std::string::npos) {
    experts.moe = ReadExperts(fields, {.shared_count = "n_shared_experts",
                                       .shared_width = "moe_shared_expert_intermediate_size",
                                       .selection_bias = true});
    experts.moe.latent = fields.Or("moe_latent_size", 0);
  }
  fields.Know({"n_routed_experts", "n_shared_experts", "moe_latent_size"});
  if (pattern.find('-') != std::string::npos) mlp.intermediate = fields.Size("intermediate_size");
  std::vector<LayerSpec> list;
  for (const char letter : pattern) {
    switch (letter) {
      case 'M':
        list.push_back(ReadMamba2(fields, {"mamba_num_heads", "mamba_head_dim", "n_groups",
                                           "ssm_state_size", "conv_kernel"}));
        break;
      case '*':
        list.push_back(ReadNemotronHeads(fields));
        break;
      case 'E':
        list.push_back(experts);
        break;
      case '-':
        list.push_back(mlp);
        break;
      default:
        fields.Refuse(
            fmt::format("hybrid_override_pattern has the letter '{}', must be M, *, E "
                        "or -",
                        Printable(std::string(1, letter))));
    }
    list.back().norms_per_layer = 1;
  }
  ModelSpec model = ReadFrame(fields, list);
  if (ReadNemotronModule(fields)) {
    LayerSpec module = ReadNemotronHeads(fields);
    module.gated_mlp = false;
    module.moe = experts.moe;
    model.mtp_layer = module;
  }
  return model;
}

ModelSpec ReadGraniteHybrid(const ConfigFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  const auto kinds = fields.Names("layer_types", layers, {"mamba", "attention"});
  LayerSpec full = ReadBiasedHeads(fields);
  LayerSpec mamba = ReadMamba2(
      fields, {"mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv"});
  mamba.recurrent->state_value_bytes = 0;
  const bool sparse = fields.Or("num_local_experts", 0) > 0;
  MoeSpec moe;
  if (sparse) {
    moe = ReadExperts(fields, {.experts = "num_local_experts",
                               .width = "intermediate_size",
                               .shared_width = "shared_intermediate_size"});
  }
  std::vector<LayerSpec> list;
  for (const std::string& kind : kinds) {
    list.push_back(kind == "mamba" ? mamba : full);
    list.back().moe = moe;
    if (!sparse) list.back().intermediate = fields.Size("shared_intermediate_size");
  }
  return ReadFrame(fields, list);
}

ModelSpec ReadMiniMaxText(const ConfigFields& fields) {
  const std::int32_t layers = ReadLayerCount(fields);
  LayerSpec full = ReadPlainHeads(fields);
  LayerSpec lightning;
  lightning.recurrent = RecurrentSpec{.kind = RecurrentKind::kLightning,
                                      .key_heads = full.query_heads,
                                      .value_heads = full.query_heads,
                                      .key_dim = full.head_dim,
                                      .value_dim = full.head_dim,
                                      .convolution = 0,
                                      .state_value_bytes = 0};
  full.moe = lightning.moe =
      ReadExperts(fields, {.experts = "num_local_experts", .width = "intermediate_size"});
  std::vector<std::int32_t> kinds;
  if (fields.Has("layer_types")) {
    for (const auto& kind :
         fields.Names("layer_types", layers, {"linear_attention", "full_attention"})) {
      kinds.push_back(kind == "full_attention" ? 1 : 0);
    }
  } else {
    kinds = fields.Numbers("attn_type_list", layers, 1);
  }
  std::vector<LayerSpec> list;
  for (const std::int32_t kind : kinds) list.push_back(kind == 1 ? full : lightning);
  return ReadFrame(fields, list);
}

constexpr std::array kRecurrentFamilies = {
    ModelFamily{.model_type = "qwen3_next",
                .read_layers = ReadQwenHybrid,
                .read_computation = ReadQwenHybridComputation,
                .naming = WeightNaming::kQwenHybrid,
                .rotary_share = 0.25},
    ModelFamily{.model_type = "qwen3_5", .read_layers = ReadQwenHybrid},
    ModelFamily{.model_type = "qwen3_5_text", .read_layers = ReadQwenHybrid},
    ModelFamily{.model_type = "qwen3_5_moe", .read_layers = ReadQwenHybrid},
    ModelFamily{.model_type = "qwen3_5_moe_text", .read_layers = ReadQwenHybrid},
    ModelFamily{.model_type = "nemotron_h", .read_layers = ReadNemotronH},
    ModelFamily{.model_type = "granitemoehybrid",
                .read_layers = ReadGraniteHybrid,
                .tied_embeddings = true},
    ModelFamily{.model_type = "minimax", .read_layers = ReadMiniMaxText},
    ModelFamily{.model_type = "minimax_text_01", .read_layers = ReadMiniMaxText},
};

}  // namespace

std::span<const ModelFamily> RecurrentFamilies() { return kRecurrentFamilies; }

}  // namespace twin
