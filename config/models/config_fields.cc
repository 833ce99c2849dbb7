#include "config/models/config_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "core/input_error.h"
#include "core/printable.h"

namespace twin {
namespace {

using Json = nlohmann::json;

bool IsIntegerWithin(const Json& value, std::int64_t low, std::int64_t high) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned()) {
    return value.get<std::uint64_t>() <= static_cast<std::uint64_t>(high) &&
           value.get<std::int64_t>() >= low;
  }
  return value.get<std::int64_t>() >= low && value.get<std::int64_t>() <= high;
}

// Fields that change what a model computes, and so its counts.
constexpr std::array kDecisiveForCounts = {"add_cross_attention",
                                           "attention_bias",
                                           "attention_chunk_size",
                                           "attention_k_eq_v",
                                           "attention_other_setting",
                                           "attention_out_bias",
                                           "attention_output_gate",
                                           "attn_output_gate",
                                           "attn_res_block_size",
                                           "attn_type_list",
                                           "block_configs",
                                           "compress_ratios",
                                           "cross_attention_layers",
                                           "first_k_dense_replace",
                                           "full_attention_interval",
                                           "gated_attention_proj_granularity_type",
                                           "hidden_size_per_layer_input",
                                           "hybrid_layer_pattern",
                                           "hybrid_override_pattern",
                                           "index_n_heads",
                                           "indexer_types",
                                           "interleave_moe_layer_step",
                                           "is_encoder_decoder",
                                           "kv_lora_rank",
                                           "layer_group_size",
                                           "layer_types",
                                           "layers_block_type",
                                           "linear_attn_config",
                                           "linear_num_value_heads",
                                           "mamba_d_state",
                                           "mla_use_output_gate",
                                           "mlp_bias",
                                           "mlp_layer_types",
                                           "mlp_only_layers",
                                           "moe_k",
                                           "moe_latent_size",
                                           "moe_layer_freq",
                                           "moe_layers_enum",
                                           "moe_num_experts",
                                           "moe_num_shared_experts",
                                           "n_routed_experts",
                                           "n_shared_experts",
                                           "no_rope_layers",
                                           "num_attention_heads_per_layer",
                                           "num_experts",
                                           "num_key_value_heads_per_layer",
                                           "num_kv_shared_layers",
                                           "num_local_experts",
                                           "num_shared_experts",
                                           "pruned_heads",
                                           "q_lora_rank",
                                           "qk_norm_type",
                                           "qkv_bias",
                                           "routed_expert_hidden_size",
                                           "share_expert_dim",
                                           "share_q_dim",
                                           "shared_expert_intermediate_size",
                                           "shared_intermediate_size",
                                           "sliding_window",
                                           "sliding_window_pattern",
                                           "sparse_attention_config",
                                           "ssm_state_size",
                                           "use_bias",
                                           "use_cla",
                                           "use_double_wide_mlp",
                                           "use_qk_norm",
                                           "use_qkv_bias",
                                           "zero_expert_num"};

// Fields that change the results alone.
constexpr std::array kDecisiveForResults = {"alibi",
                                            "attention_multiplier",
                                            "attn_logit_softcapping",
                                            "clip_qkv",
                                            "dim_model_base",
                                            "embedding_multiplier",
                                            "final_logit_softcapping",
                                            "logit_scale",
                                            "logits_scaling",
                                            "parallel_attn",
                                            "query_pre_attn_scalar",
                                            "residual_multiplier",
                                            "scale_depth",
                                            "scale_emb",
                                            "use_alibi",
                                            "use_parallel_residual"};

constexpr std::int64_t kSizeMost = std::numeric_limits<std::int32_t>::max();

}  // namespace

void ConfigFields::Refuse(const std::string& what) const {
  throw InputError(InputError::Kind::kData, where_, what);
}

void ConfigFields::RefuseField(const char* field, const Json& value,
                               const std::string& allowed) const {
  Refuse(fmt::format("{} is {}, must be {}", field,
                     Printable(value.dump(-1, ' ', true, Json::error_handler_t::replace)),
                     allowed));
}

const Json* ConfigFields::Find(const char* field) const {
  asked_.insert(field);
  const auto found = object_.find(field);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool ConfigFields::IsNull(const char* field) const {
  const auto found = object_.find(field);
  return found != object_.end() && found->is_null();
}

std::int32_t ConfigFields::LayerCount(const char* field) const {
  constexpr std::int32_t kLayersMost = 4096;
  const std::int32_t layers = Size(field);
  if (layers > kLayersMost) {
    Refuse(fmt::format("{} is {}, must be at most {}", field, layers, kLayersMost));
  }
  return layers;
}

std::optional<std::int32_t> ConfigFields::OptionalSize(const char* field,
                                                       std::int32_t lowest) const {
  const Json* value = Find(field);
  if (value == nullptr) return std::nullopt;
  if (!IsIntegerWithin(*value, lowest, kSizeMost)) {
    RefuseField(field, *value, fmt::format("an integer from {} to 2^31 - 1", lowest));
  }
  return value->get<std::int32_t>();
}

std::int32_t ConfigFields::Size(const char* field) const {
  const auto value = OptionalSize(field);
  if (!value) Refuse(fmt::format("{} is missing, must be a positive integer", field));
  return *value;
}

std::optional<double> ConfigFields::OptionalPositive(const char* field) const {
  const Json* value = Find(field);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !(value->get<double>() > 0) || !std::isfinite(value->get<double>())) {
    RefuseField(field, *value, "a number above 0");
  }
  return value->get<double>();
}

double ConfigFields::Positive(const char* field) const {
  const auto value = OptionalPositive(field);
  if (!value) Refuse(fmt::format("{} is missing, must be a number above 0", field));
  return *value;
}

bool ConfigFields::Flag(const char* field, bool absent) const {
  const Json* value = Find(field);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) RefuseField(field, *value, "true or false");
  return value->get<bool>();
}

std::optional<std::string> ConfigFields::Text(const char* field) const {
  const Json* value = Find(field);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) RefuseField(field, *value, "a string");
  return value->get<std::string>();
}

std::optional<ConfigFields> ConfigFields::Object(const char* field) const {
  const Json* value = Find(field);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) RefuseField(field, *value, "an object");
  return ConfigFields(*value, where_ + ": " + field);
}

std::vector<ConfigFields> ConfigFields::Objects(const char* field) const {
  const Json* value = Find(field);
  if (value == nullptr) return {};
  std::vector<ConfigFields> objects;
  if (!value->is_array()) RefuseField(field, *value, "a list of objects");
  for (const Json& each : *value) {
    const std::string where = fmt::format("{}: {}[{}]", where_, field, objects.size());
    objects.emplace_back(each, where);
    if (!each.is_object()) objects.back().Refuse("must be an object, is " + ValueText(each));
  }
  return objects;
}

const Json& ConfigFields::List(const char* field, std::int32_t layers) const {
  const Json* const list = Find(field);
  if (list == nullptr) Refuse(fmt::format("{} is missing, must be a list", field));
  if (!list->is_array()) {
    Refuse(fmt::format("{} is {}, must be a list", field, ValueText(*list)));
  }
  if (list->size() != static_cast<std::size_t>(layers)) {
    Refuse(fmt::format("{} has {} items, must have {}, one a layer", field, list->size(), layers));
  }
  return *list;
}

std::vector<std::string> ConfigFields::Names(
    const char* field, std::int32_t layers, std::initializer_list<std::string_view> allowed) const {
  std::vector<std::string> names;
  for (const Json& item : List(field, layers)) {
    const bool known =
        item.is_string() && std::ranges::find(allowed, item.get<std::string>()) != allowed.end();
    if (!known) {
      Refuse(fmt::format("{}[{}] is {}, must be one of {}", field, names.size(), ValueText(item),
                         fmt::join(allowed, ", ")));
    }
    names.push_back(item.get<std::string>());
  }
  return names;
}

std::vector<std::int32_t> ConfigFields::Numbers(const char* field, std::int32_t layers,
                                                std::int32_t highest) const {
  std::vector<std::int32_t> numbers;
  for (const Json& item : List(field, layers)) {
    const bool known = item.is_number_integer() && item >= 0 && item <= highest;
    if (!known) {
      Refuse(fmt::format("{}[{}] is {}, must be an integer from 0 to {}", field, numbers.size(),
                         ValueText(item), highest));
    }
    numbers.push_back(item.get<std::int32_t>());
  }
  return numbers;
}

std::vector<ConfigFields> ConfigFields::Blocks(const char* field, std::int32_t layers) const {
  (void)List(field, layers);
  return Objects(field);
}

void ConfigFields::RefuseUnknown(std::string_view field, const Json& value) const {
  Refuse(fmt::format(
      "{} is {}, which is not known for this model_type; allowed: leave it out, null or false",
      Printable(std::string(field)), ValueText(value)));
}

const Json* ConfigFields::FindUnasked(const char* field) const {
  const auto found = object_.find(field);
  if (found == object_.end() || asked_.contains(field) || IsNeutral(*found)) return nullptr;
  return &*found;
}

void ConfigFields::RefuseUnknownLayers() const {
  for (const char* const field : kDecisiveForCounts) {
    const Json* const value = FindUnasked(field);
    if (value != nullptr) RefuseUnknown(field, *value);
  }
}

void ConfigFields::RefuseUnknownResults() const {
  for (const char* const field : kDecisiveForResults) {
    const Json* const value = FindUnasked(field);
    // A factor of 1 changes nothing.
    if (value != nullptr && *value != 1) RefuseUnknown(field, *value);
  }
}

void ConfigFields::RefuseOthers(std::initializer_list<std::string_view> known) const {
  for (const auto& [field, value] : object_.items()) {
    const bool is_known = std::ranges::find(known, field) != known.end();
    if (!is_known && !IsNeutral(value)) RefuseUnknown(field, value);
  }
}

std::vector<std::int32_t> ConfigFields::TokenIds(const char* field) const {
  const Json* value = Find(field);
  if (value == nullptr) return {};
  std::vector<std::int32_t> ids;
  const auto add = [&](const Json& id) {
    if (!IsIntegerWithin(id, 0, kSizeMost)) {
      RefuseField(field, *value, "a token id or a list of token ids");
    }
    ids.push_back(id.get<std::int32_t>());
  };
  if (value->is_array()) {
    for (const Json& id : *value) add(id);
  } else {
    add(*value);
  }
  return ids;
}

std::string ValueText(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  constexpr std::size_t kMost = 60;
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return Printable(text);
}

bool IsNeutral(const Json& value) {
  return value.is_null() || value == false || value == 0 || value == "" ||
         (value.is_structured() && value.empty());
}

}  // namespace twin
