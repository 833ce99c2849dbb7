#include "proto/hf_config.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/input_error.h"

namespace twin {
namespace {

using Json = nlohmann::json;

// One JSON object and the name of its file, with typed access that explains what is wrong. A null
// value counts as absent: that is how transformers write "not set".
class Fields {
 public:
  Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

  [[noreturn]] void Refuse(const std::string& what) const {
    throw InputError(InputError::Kind::kData, where_, what);
  }

  [[nodiscard]] const Json* Find(const char* field) const {
    const auto it = object_.find(field);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }

  // Only JSON integers within [lowest, 2^31) are sizes.
  [[nodiscard]] std::optional<std::int32_t> OptionalSize(const char* field,
                                                         std::int64_t lowest = 1) const {
    const Json* value = Find(field);
    if (value == nullptr) return std::nullopt;
    const std::string allowed = ", must be an integer of at least " + std::to_string(lowest);
    if (!value->is_number_integer()) Refuse(Shown(field, *value) + allowed);
    if (value->is_number_unsigned() &&
        value->get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int32_t>::max()}) {
      Refuse(Shown(field, *value) + allowed + " and below 2^31");
    }
    const auto number = value->get<std::int64_t>();
    if (number < lowest) Refuse(Shown(field, *value) + allowed);
    return static_cast<std::int32_t>(number);
  }

  [[nodiscard]] std::int32_t Size(const char* field) const {
    const auto value = OptionalSize(field);
    if (!value) Refuse(std::string(field) + " is missing, must be a positive integer");
    return *value;
  }

  [[nodiscard]] bool Flag(const char* field, bool absent) const {
    const Json* value = Find(field);
    if (value == nullptr) return absent;
    if (!value->is_boolean()) Refuse(Shown(field, *value) + ", must be true or false");
    return value->get<bool>();
  }

  [[nodiscard]] std::optional<std::string> Text(const char* field) const {
    const Json* value = Find(field);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) Refuse(Shown(field, *value) + ", must be a string");
    return value->get<std::string>();
  }

  [[nodiscard]] std::optional<Fields> Object(const char* field) const {
    const Json* value = Find(field);
    if (value == nullptr) return std::nullopt;
    if (!value->is_object()) Refuse(Shown(field, *value) + ", must be an object");
    return Fields(*value, where_ + ": " + field);
  }

 private:
  static std::string Shown(const char* field, const Json& value) {
    constexpr std::size_t kShown = 40;
    std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (text.size() > kShown) text = text.substr(0, kShown) + "...";
    return std::string(field) + " is " + text;
  }

  const Json& object_;
  std::string where_;
};

// What transformers' modelling code fixes for a family and config.json therefore may not say.
struct Family {
  std::string_view model_type;
  bool qkv_bias = false;
  bool qk_norm = false;
  std::int32_t norms_per_layer = 2;
  bool tied_by_default = false;
  bool windowed = false;                // `sliding_window` applies whenever it is given
  bool windowed_by_switch = false;      // only with use_sliding_window
  const char* experts_field = nullptr;  // field with the number of experts
};

constexpr std::array kLlamaLike = {
    Family{.model_type = "llama"},
    Family{.model_type = "granite"},
    Family{.model_type = "phi3", .windowed = true},
    Family{.model_type = "mistral", .windowed = true},
    Family{.model_type = "mixtral", .windowed = true, .experts_field = "num_local_experts"},
    Family{.model_type = "gemma2", .norms_per_layer = 4, .tied_by_default = true, .windowed = true},
    Family{.model_type = "qwen2", .qkv_bias = true, .windowed_by_switch = true},
    Family{.model_type = "qwen3", .qk_norm = true, .windowed_by_switch = true},
    Family{.model_type = "qwen2_moe",
           .qkv_bias = true,
           .windowed_by_switch = true,
           .experts_field = "num_experts"},
    Family{.model_type = "qwen3_moe",
           .qk_norm = true,
           .windowed_by_switch = true,
           .experts_field = "num_experts"},
};

constexpr auto kModelTypes = [] {
  std::array<std::string_view, kLlamaLike.size() + 2> names{"gpt2", "opt"};
  for (std::size_t i = 0; i < kLlamaLike.size(); ++i) names[i + 2] = kLlamaLike[i].model_type;
  return names;
}();

std::optional<DType> StoredType(const Fields& config) {
  const auto name = config.Text(config.Find("dtype") != nullptr ? "dtype" : "torch_dtype");
  if (!name) return std::nullopt;
  const auto type = ParseDType(*name);
  if (!type) {
    config.Refuse("dtype '" + *name + "' is not supported, must be float32, bfloat16 or float16");
  }
  return type;
}

void CheckRope(const Fields& config) {
  constexpr std::array<std::string_view, 6> kTypes = {"default", "linear", "dynamic",
                                                      "yarn",    "llama3", "longrope"};
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    const auto rope = config.Object(field);
    if (!rope) continue;
    auto type = rope->Text("rope_type");
    if (!type) type = rope->Text("type");  // the older key
    if (!type || std::find(kTypes.begin(), kTypes.end(), *type) != kTypes.end()) continue;
    rope->Refuse("rope type '" + *type +
                 "' is unknown, must be default, linear, dynamic, yarn, llama3 or longrope");
  }
}

void ReadHeads(const Fields& config, ModelSpec& model) {
  model.query_heads = config.Size("num_attention_heads");
  model.kv_heads = config.OptionalSize("num_key_value_heads").value_or(model.query_heads);
  if (model.query_heads % model.kv_heads != 0) {
    config.Refuse("num_attention_heads " + std::to_string(model.query_heads) +
                  " is no multiple of num_key_value_heads " + std::to_string(model.kv_heads));
  }
  if (const auto head_dim = config.OptionalSize("head_dim")) {
    model.head_dim = *head_dim;
    return;
  }
  if (model.hidden % model.query_heads != 0) {
    config.Refuse("hidden_size " + std::to_string(model.hidden) +
                  " is no multiple of num_attention_heads " + std::to_string(model.query_heads) +
                  ", and head_dim is absent");
  }
  model.head_dim = model.hidden / model.query_heads;
}

// Layers that the window applies to: by `layer_types` where given, else by the family's rule.
std::int32_t WindowedLayers(const Fields& config, const Family& family, const ModelSpec& model) {
  if (const Json* types = config.Find("layer_types")) {
    if (!types->is_array() || types->size() != static_cast<std::size_t>(model.layers)) {
      config.Refuse("layer_types must be a list of num_hidden_layers names");
    }
    return static_cast<std::int32_t>(
        std::count(types->begin(), types->end(), Json("sliding_attention")));
  }
  if (family.model_type == "gemma2") return (model.layers + 1) / 2;  // every other one, from 0
  if (!family.windowed_by_switch) return model.layers;
  const auto full = config.OptionalSize("max_window_layers", 0).value_or(0);
  return std::max(0, model.layers - full);
}

void ReadWindow(const Fields& config, const Family& family, ModelSpec& model) {
  if (family.windowed_by_switch && !config.Flag("use_sliding_window", false)) return;
  if (!family.windowed && !family.windowed_by_switch) return;
  const auto window = config.OptionalSize("sliding_window");
  if (!window) return;
  model.windowed_layers = WindowedLayers(config, family, model);
  if (model.windowed_layers > 0) model.sliding_window = *window;
}

void ReadMlp(const Fields& config, const Family& family, ModelSpec& model) {
  if (family.experts_field == nullptr) {
    model.intermediate = config.Size("intermediate_size");
    return;
  }
  model.moe.experts = config.Size(family.experts_field);
  model.moe.experts_per_token = config.Size("num_experts_per_tok");
  if (model.moe.experts_per_token > model.moe.experts) {
    config.Refuse("num_experts_per_tok " + std::to_string(model.moe.experts_per_token) +
                  " exceeds " + family.experts_field + " " + std::to_string(model.moe.experts));
  }
  if (family.model_type == "mixtral") {
    model.moe.expert_intermediate = config.Size("intermediate_size");
    return;
  }
  model.moe.expert_intermediate = config.Size("moe_intermediate_size");
  if (family.model_type == "qwen2_moe") {
    model.moe.shared_intermediate = config.Size("shared_expert_intermediate_size");
  }
  const Json* dense = config.Find("mlp_only_layers");
  if (config.OptionalSize("decoder_sparse_step").value_or(1) != 1 ||
      (dense != nullptr && !dense->empty())) {
    config.Refuse(
        "mixtures with some dense layers (decoder_sparse_step, mlp_only_layers) are not "
        "supported");
  }
}

ModelSpec ReadLlamaLike(const Fields& config, const Family& family) {
  ModelSpec model;
  model.hidden = config.Size("hidden_size");
  model.layers = config.Size("num_hidden_layers");
  model.vocab = config.Size("vocab_size");
  model.max_position = config.Size("max_position_embeddings");
  ReadHeads(config, model);
  ReadMlp(config, family, model);
  ReadWindow(config, family, model);
  CheckRope(config);
  const bool attention_bias = config.Flag("attention_bias", false);
  model.qkv_bias = attention_bias || config.Flag("qkv_bias", family.qkv_bias);
  model.output_bias = attention_bias;
  model.mlp_bias = config.Flag("mlp_bias", false);
  model.qk_norm = family.qk_norm;
  model.norms_per_layer = family.norms_per_layer;
  model.tied_embeddings = config.Flag("tie_word_embeddings", family.tied_by_default);
  return model;
}

// What GPT-2 and OPT have in common: LayerNorm, a plain MLP, biases everywhere, learned positions.
ModelSpec WithBiasesAndLearnedPositions() {
  ModelSpec model;
  model.norm = NormKind::kLayerNorm;
  model.gated_mlp = false;
  model.qkv_bias = model.output_bias = model.mlp_bias = true;
  return model;
}

ModelSpec ReadGpt2(const Fields& config) {
  ModelSpec model = WithBiasesAndLearnedPositions();
  model.hidden = config.Size("n_embd");
  model.layers = config.Size("n_layer");
  model.query_heads = model.kv_heads = config.Size("n_head");
  if (model.hidden % model.query_heads != 0) {
    config.Refuse("n_embd " + std::to_string(model.hidden) + " is no multiple of n_head " +
                  std::to_string(model.query_heads));
  }
  model.head_dim = model.hidden / model.query_heads;
  model.intermediate = config.OptionalSize("n_inner").value_or(4 * model.hidden);
  model.vocab = config.Size("vocab_size");
  model.max_position = model.learned_positions = config.Size("n_positions");
  model.tied_embeddings = config.Flag("tie_word_embeddings", true);
  return model;
}

ModelSpec ReadOpt(const Fields& config) {
  constexpr std::int32_t kPositionOffset = 2;  // the table has rows for two unused positions
  ModelSpec model = WithBiasesAndLearnedPositions();
  model.hidden = config.Size("hidden_size");
  model.layers = config.Size("num_hidden_layers");
  ReadHeads(config, model);
  model.intermediate = config.Size("ffn_dim");
  model.vocab = config.Size("vocab_size");
  model.max_position = config.Size("max_position_embeddings");
  model.learned_positions = model.max_position + kPositionOffset;
  const auto width = config.OptionalSize("word_embed_proj_dim");
  if (width && *width != model.hidden) model.embedding_width = *width;
  model.final_norm =
      config.Flag("do_layer_norm_before", true) && !config.Flag("_remove_final_layer_norm", false);
  const bool has_bias = config.Flag("enable_bias", true);
  model.qkv_bias = model.output_bias = model.mlp_bias = has_bias;
  model.tied_embeddings = config.Flag("tie_word_embeddings", true);
  return model;
}

ModelSpec ReadFamily(const Fields& config) {
  const auto type = config.Text("model_type");
  if (!type) config.Refuse("model_type is missing");
  if (*type == "gpt2") return ReadGpt2(config);
  if (*type == "opt") return ReadOpt(config);
  const auto family = std::find_if(kLlamaLike.begin(), kLlamaLike.end(),
                                   [&](const Family& f) { return f.model_type == *type; });
  if (family == kLlamaLike.end()) {
    std::string known;
    for (const std::string_view name : kModelTypes) {
      known += (known.empty() ? "" : ", ") + std::string(name);
    }
    config.Refuse("unknown model_type '" + *type + "', must be one of " + known);
  }
  return ReadLlamaLike(config, *family);
}

}  // namespace

ModelSpec ParseHfConfig(std::string_view text, std::string_view where) {
  const std::string place(where);
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw InputError(InputError::Kind::kData, place,
                     "is not JSON (byte " + std::to_string(error.byte) + ")");
  }
  if (!json.is_object()) throw InputError(InputError::Kind::kData, place, "must be a JSON object");
  const Fields outer(json, place);
  // Multi-modal models keep the language model's config one level down, the type sometimes above.
  const auto nested = outer.Object("text_config");
  ModelSpec model = ReadFamily(nested ? *nested : outer);
  auto stored = nested ? StoredType(*nested) : std::nullopt;
  if (!stored) stored = StoredType(outer);
  model.weight_dtype = model.kv_dtype = stored.value_or(DType::kFp32);
  return model;
}

ModelSpec ReadHfConfig(const std::filesystem::path& path) {
  const bool is_directory = std::filesystem::is_directory(path);
  const std::filesystem::path file = is_directory ? path / "config.json" : path;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    throw InputError(InputError::Kind::kData, file.string(), "cannot be opened");
  }
  std::ostringstream text;
  text << stream.rdbuf();
  ModelSpec model = ParseHfConfig(text.str(), file.string());
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  model.name = folder.filename().string();
  return model;
}

}  // namespace twin
