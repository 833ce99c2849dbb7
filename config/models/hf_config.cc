#include "config/models/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>

#include "config/models/config_fields.h"
#include "config/models/layered_computation.h"
#include "config/models/layered_config.h"
#include "config/models/named_model.h"
#include "config/models/stored_weights.h"
#include "core/files/input_file.h"
#include "core/input_error.h"
#include "core/layer_groups.h"
#include "core/printable.h"

namespace twin {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kConfigBytesMax = 16 << 20;

Activation ReadActivation(const ConfigFields& config, const ModelFamily& family) {
  const char* const field = family.activation_field;
  const std::string name = config.Text(field).value_or(family.activation);
  if (name == "silu" || name == "swish") return Activation::kSilu;
  if (name == "gelu") return Activation::kGelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Activation::kGeluTanh;
  if (name == "relu") return Activation::kRelu;
  config.Refuse(fmt::format("{} is '{}', must be silu, gelu, gelu_new, gelu_pytorch_tanh or relu",
                            field, Printable(name)));
}

void ReadLayers(const ConfigFields& config, const char* field, ModelConfig& model) {
  model.shape.layers = config.LayerCount(field);
  model.layer_windows.assign(static_cast<std::size_t>(model.shape.layers), 0);
}

void RequireDivision(const ConfigFields& config, const char* whole, std::int32_t number,
                     const char* part, std::int32_t divisor) {
  if (number % divisor == 0) return;
  config.Refuse(fmt::format("{} {} is no multiple of {} {}", whole, number, part, divisor));
}

void ReadHeads(const ConfigFields& config, const ModelFamily& family, ModelSpec& shape) {
  shape.query_heads = config.Size("num_attention_heads");
  const bool one_each = family.kv_heads == 0 || config.IsNull("num_key_value_heads");
  shape.kv_heads = config.OptionalSize("num_key_value_heads")
                       .value_or(one_each ? shape.query_heads : family.kv_heads);
  RequireDivision(config, "num_attention_heads", shape.query_heads, "num_key_value_heads",
                  shape.kv_heads);
  const bool derived = family.head_dim == 0 || config.IsNull("head_dim");
  if (!derived || config.Has("head_dim")) {
    shape.head_dim = config.OptionalSize("head_dim").value_or(family.head_dim);
    return;
  }
  if (shape.hidden % shape.query_heads != 0) {
    config.Refuse(
        fmt::format("hidden_size {} is no multiple of num_attention_heads {}, and head_dim is "
                    "absent",
                    shape.hidden, shape.query_heads));
  }
  shape.head_dim = shape.hidden / shape.query_heads;
}

std::vector<bool> WindowedByRule(const ConfigFields& config, const ModelFamily& family,
                                 std::int32_t layers) {
  std::vector<bool> windowed(static_cast<std::size_t>(layers), true);
  if (family.window_rule == WindowRule::kEven) {
    for (std::size_t i = 1; i < windowed.size(); i += 2) windowed[i] = false;
  }
  if (family.window_rule == WindowRule::kFromLayerIfEnabled) {
    const auto full = config.OptionalSize("max_window_layers", 0).value_or(kMaxWindowLayersDefault);
    std::fill_n(windowed.begin(), std::min(full, layers), false);
  }
  return windowed;
}

std::vector<bool> WindowedByType(const ConfigFields& config, const json& types,
                                 std::int32_t layers) {
  std::vector<bool> windowed(static_cast<std::size_t>(layers));
  const bool sound = types.is_array() && types.size() == windowed.size() &&
                     std::all_of(types.begin(), types.end(), [](const json& type) {
                       return type == "sliding_attention" || type == "full_attention";
                     });
  if (!sound) {
    config.Refuse(
        "layer_types must be a list of num_hidden_layers names, each full_attention or "
        "sliding_attention");
  }
  for (std::size_t i = 0; i < windowed.size(); ++i) windowed[i] = types[i] == "sliding_attention";
  return windowed;
}

void RequireFullAttention(const ConfigFields& config, const json& types, std::int32_t layers) {
  const std::vector<bool> windowed = WindowedByType(config, types, layers);
  if (std::ranges::find(windowed, true) == windowed.end()) return;
  config.Refuse("layer_types has sliding_attention; allowed for this model_type: full_attention");
}

void ReadWindow(const ConfigFields& config, const ModelFamily& family, ModelConfig& model) {
  const bool switched = family.window_rule == WindowRule::kFromLayerIfEnabled ||
                        family.window_rule == WindowRule::kAllIfEnabled;
  const json* const types = config.Find("layer_types");
  // Transformers read a window only where the family has one.
  config.Know({"sliding_window"});
  if (family.window_rule == WindowRule::kNone) {
    if (types != nullptr) RequireFullAttention(config, *types, model.shape.layers);
    return;
  }
  if (switched && !config.Flag("use_sliding_window", false)) return;
  if (config.IsNull("sliding_window")) return;
  const auto window = config.OptionalSize("sliding_window").value_or(family.sliding_window);
  if (window == 0) return;
  const auto windowed = types != nullptr ? WindowedByType(config, *types, model.shape.layers)
                                         : WindowedByRule(config, family, model.shape.layers);
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    if (windowed[i]) model.layer_windows[i] = window;
  }
  const auto count = std::count(windowed.begin(), windowed.end(), true);
  if (count > 0) SetWindow(window, static_cast<std::int32_t>(count), model.shape);
}

void ReadMlp(const ConfigFields& config, const ModelFamily& family, ModelSpec& shape) {
  if (!family.has_experts()) {
    shape.intermediate = config.Size("intermediate_size");
    return;
  }
  const ExpertDefaults& defaults = family.moe;
  shape.moe.experts = config.OptionalSize(defaults.experts_field).value_or(defaults.experts);
  shape.moe.experts_per_token =
      config.OptionalSize("num_experts_per_tok").value_or(defaults.experts_per_token);
  if (shape.moe.experts_per_token > shape.moe.experts) {
    config.Refuse(fmt::format("num_experts_per_tok {} exceeds {} {}", shape.moe.experts_per_token,
                              defaults.experts_field, shape.moe.experts));
  }
  shape.moe.expert_intermediate =
      defaults.width > 0 ? config.OptionalSize(defaults.width_field).value_or(defaults.width)
                         : config.Size(defaults.width_field);
  if (defaults.shared_width > 0) {
    shape.moe.shared_intermediate =
        config.OptionalSize("shared_expert_intermediate_size").value_or(defaults.shared_width);
  }
  const json* const dense = config.Find("mlp_only_layers");
  if (config.OptionalSize("decoder_sparse_step").value_or(1) != 1 ||
      (dense != nullptr && !dense->empty())) {
    config.Refuse(
        "decoder_sparse_step and mlp_only_layers: mixtures with some dense layers are not "
        "supported, must be 1 and empty");
  }
}

// Reads the scales and caps that gemma2 and granite add to llama.
void ReadScales(const ConfigFields& config, const ModelFamily& family, ModelConfig& model) {
  model.attention_scale = 1 / std::sqrt(static_cast<float>(model.shape.head_dim));
  const auto number = [&](const char* field, double absent) {
    return static_cast<float>(config.OptionalPositive(field).value_or(absent));
  };
  if (family.model_type == "granite") {
    model.embedding_scale = number("embedding_multiplier", 1);
    model.residual_scale = number("residual_multiplier", 1);
    model.attention_scale = number("attention_multiplier", 1);
    model.logit_scale =
        static_cast<float>(1 / config.OptionalPositive("logits_scaling").value_or(1));
  }
  if (family.model_type == "gemma2") {
    const auto cap = [&](const char* field, double absent) {
      return config.IsNull(field) ? 0 : number(field, absent);
    };
    model.norm_placement = NormPlacement::kAround;
    model.shape.norms_per_layer = 4;
    model.norm_gain_offset = 1;
    model.embedding_scale = std::sqrt(static_cast<float>(model.shape.hidden));
    model.attention_scale = static_cast<float>(
        1 / std::sqrt(config.OptionalPositive("query_pre_attn_scalar").value_or(256)));
    model.attention_cap = cap("attn_logit_softcapping", 50);
    model.logit_cap = cap("final_logit_softcapping", 30);
  }
}

ModelConfig ReadLlamaLike(const ConfigFields& config, const ModelFamily& family) {
  ModelConfig model;
  ModelSpec& shape = model.shape;
  shape.hidden = config.Size("hidden_size");
  ReadLayers(config, "num_hidden_layers", model);
  shape.vocab = config.Size("vocab_size");
  shape.max_position = config.Size("max_position_embeddings");
  ReadMlp(config, family, shape);
  ReadHeads(config, family, shape);
  ReadWindow(config, family, model);
  ReadScales(config, family, model);
  model.rope = ReadRopeConfig(config, family, shape.max_position);
  model.rotary_dimensions = ReadRotaryDimensions(config, shape.head_dim);
  model.norm_epsilon =
      static_cast<float>(config.OptionalPositive("rms_norm_eps").value_or(family.norm_epsilon));
  const bool attention_bias = config.Flag("attention_bias", false);
  const bool has_switch = family.model_type == "qwen2_moe";
  shape.qkv_bias = attention_bias || (has_switch ? config.Flag("qkv_bias", family.has_qkv_bias)
                                                 : family.has_qkv_bias);
  shape.output_bias = attention_bias;
  if (!family.has_experts()) shape.mlp_bias = config.Flag("mlp_bias", false);
  model.normalises_expert_weights = family.has_experts() && (family.moe.always_normalised ||
                                                             config.Flag("norm_topk_prob", false));
  shape.qk_norm = family.has_qk_norm;
  return model;
}

// Sets the features that GPT-2 and OPT share: LayerNorm, a plain MLP, biases, learned positions.
void SetLearnedPositionFamily(ModelConfig& model) {
  ModelSpec& shape = model.shape;
  shape.norm = NormKind::kLayerNorm;
  shape.gated_mlp = false;
  shape.qkv_bias = shape.output_bias = shape.mlp_bias = true;
  shape.kv_heads = shape.query_heads;
  shape.head_dim = shape.hidden / shape.query_heads;
  shape.learned_positions = shape.max_position + model.position_offset;
  model.attention_scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
}

ModelConfig ReadGpt2(const ConfigFields& config, const ModelFamily& family) {
  ModelConfig model;
  ModelSpec& shape = model.shape;
  shape.hidden = config.Size("n_embd");
  ReadLayers(config, "n_layer", model);
  shape.query_heads = config.Size("n_head");
  RequireDivision(config, "n_embd", shape.hidden, "n_head", shape.query_heads);
  shape.vocab = config.Size("vocab_size");
  shape.max_position = config.Size("n_positions");
  const std::int64_t inner = config.OptionalSize("n_inner").value_or(0) > 0
                                 ? config.Size("n_inner")
                                 : std::int64_t{4} * shape.hidden;
  if (inner > std::numeric_limits<std::int32_t>::max()) config.Refuse("n_embd is too large");
  shape.intermediate = static_cast<std::int32_t>(inner);
  if (config.Flag("add_cross_attention", false)) {
    config.Refuse("add_cross_attention true is not supported, must be false");
  }
  SetLearnedPositionFamily(model);
  if (!config.Flag("scale_attn_weights", true)) model.attention_scale = 1;
  model.scales_attention_by_layer = config.Flag("scale_attn_by_inverse_layer_idx", false);
  model.norm_epsilon = static_cast<float>(
      config.OptionalPositive("layer_norm_epsilon").value_or(family.norm_epsilon));
  return model;
}

ModelConfig ReadOpt(const ConfigFields& config, const ModelFamily& family) {
  ModelConfig model;
  ModelSpec& shape = model.shape;
  model.position_offset = 2;  // the table's first two rows are unused
  shape.hidden = config.Size("hidden_size");
  ReadLayers(config, "num_hidden_layers", model);
  shape.query_heads = config.Size("num_attention_heads");
  RequireDivision(config, "hidden_size", shape.hidden, "num_attention_heads", shape.query_heads);
  shape.vocab = config.Size("vocab_size");
  shape.max_position = config.Size("max_position_embeddings");
  shape.intermediate = config.Size("ffn_dim");
  const std::int32_t width = config.OptionalSize("word_embed_proj_dim").value_or(shape.hidden);
  if (width != shape.hidden) shape.embedding_width = width;
  SetLearnedPositionFamily(model);
  shape.qkv_bias = shape.output_bias = shape.mlp_bias = config.Flag("enable_bias", true);
  const bool before = config.Flag("do_layer_norm_before", true);
  model.norm_placement = before ? NormPlacement::kBefore : NormPlacement::kBehindSum;
  shape.final_norm = before && !config.Flag("_remove_final_layer_norm", false);
  if (!config.Flag("layer_norm_elementwise_affine", true)) {
    config.Refuse("layer_norm_elementwise_affine false is not supported, must be true");
  }
  model.norm_epsilon = static_cast<float>(family.norm_epsilon);
  return model;
}

void ReadEndTokens(const ConfigFields& config, const ModelFamily* family, ModelConfig& model) {
  if (config.Has("eos_token_id")) {
    model.end_tokens = config.TokenIds("eos_token_id");
  } else if (family != nullptr && family->end_token && !config.IsNull("eos_token_id")) {
    model.end_tokens = {*family->end_token};
  }
}

ModelConfig ReadLayered(const ConfigFields& config, const ConfigFields& outer,
                        const std::string& type) {
  ModelConfig model;
  model.model_type = type;
  model.shape = ReadLayeredModel(config, outer, type);
  ReadLayeredComputation(config, model);
  ReadEndTokens(config, nullptr, model);
  return model;
}

ModelConfig ReadFamily(const ConfigFields& config, const ConfigFields& outer) {
  // The text part of a multi-modal model may leave its type to the whole.
  const auto own = config.Text("model_type");
  const auto type = own ? own : outer.Text("model_type");
  if (!type) {
    config.Refuse("model_type is missing, must be one of " + ModelFamilyNames());
  }
  if (IsLayeredFamily(*type)) return ReadLayered(config, outer, *type);
  if (const auto why = WhyFamilyRefused(*type); !why.empty()) {
    config.Refuse(fmt::format("model_type {} is refused: {}", *type, why));
  }
  const ModelFamily* const family = FindModelFamily(*type);
  if (family == nullptr) {
    config.Refuse(fmt::format("unknown model_type '{}', must be one of {}, {}", Printable(*type),
                              ModelFamilyNames(), LayeredFamilyNames()));
  }
  ModelConfig model = *type == "gpt2"  ? ReadGpt2(config, *family)
                      : *type == "opt" ? ReadOpt(config, *family)
                                       : ReadLlamaLike(config, *family);
  model.model_type = *type;
  model.naming = family->naming;
  model.activation = ReadActivation(config, *family);
  model.shape.tied_embeddings = config.Flag("tie_word_embeddings", family->tied_embeddings);
  ReadEndTokens(config, family, model);
  config.RefuseUnknownLayers();
  config.RefuseUnknownResults();
  return model;
}

// Tokenizers have lengths such as 1e30, which stand for no limit.
void ReadPositions(const ConfigFields& config, StoredPositions& positions) {
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  for (std::size_t i = 0; i < positions.values.size(); ++i) {
    const char* const key = StoredPositions::kKeys[i];
    const json* const value = config.Find(key);
    const bool is_unlimited =
        value != nullptr && value->is_number() && value->get<double>() > kMost;
    positions.values[i] = is_unlimited ? kMost : config.OptionalSize(key);
  }
}

// Python writes numbers that JSON does not have, in limits that no reader uses. They become 0, at
// the same places: a field that must be positive is refused.
std::string WithoutInfinities(std::string_view text) {
  std::string plain(text);
  bool quoted = false;
  char before = ':';  // the latest character that is no space
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const char here = plain[i];
    if (quoted && here == '\\') {
      ++i;
    } else if (here == '"') {
      quoted = !quoted;
    } else if (!quoted && (before == ':' || before == ',' || before == '[')) {
      for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
        if (!std::string_view(plain).substr(i).starts_with(word)) continue;
        plain.replace(i, word.size(), word.size(), ' ');
        plain[i] = '0';
      }
    }
    if (!std::isspace(static_cast<unsigned char>(here))) before = here;
  }
  return plain;
}

json ParseObject(std::string_view text, const std::string& where) {
  json parsed;
  try {
    parsed = json::parse(WithoutInfinities(text));
  } catch (const json::parse_error& error) {
    throw InputError(InputError::Kind::kData, where,
                     fmt::format("is not JSON (byte {} of {})", error.byte, text.size()));
  } catch (const json::exception&) {
    throw InputError(InputError::Kind::kData, where, "holds a number that cannot be represented");
  }
  if (!parsed.is_object()) {
    throw InputError(InputError::Kind::kData, where, "must be a JSON object");
  }
  return parsed;
}

// The text of config.json. ModelOpt may keep the formats of the weights in a file of its own beside
// it, which then becomes quantization_config.
std::string WithModelOptFile(const fs::path& file) {
  std::string text = ReadFile(file, kConfigBytesMax);
  const fs::path beside = file.parent_path() / "hf_quant_config.json";
  std::error_code unknown;
  if (!fs::exists(beside, unknown)) return text;
  json config = ParseObject(text, file.string());
  const bool is_known = config.contains("quantization_config") ||
                        (config.contains("text_config") && config["text_config"].is_object() &&
                         config["text_config"].contains("quantization_config"));
  if (is_known) return text;
  const json quantised = ParseObject(ReadFile(beside, kConfigBytesMax), beside.string());
  const auto part = quantised.find("quantization");
  if (part == quantised.end() || !part->is_object()) {
    throw InputError(InputError::Kind::kData, beside.string(), "has no object quantization");
  }
  config["quantization_config"] = *part;
  config["quantization_config"]["quant_method"] = "modelopt";
  return config.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

ModelConfig ParseHfConfig(std::string_view text, const std::string& where) {
  const json parsed = ParseObject(text, where);
  const ConfigFields outer(parsed, where);
  // Multi-modal models keep the language model's config one level down.
  const char* const part = outer.Has("llm_config")        ? "llm_config"
                           : outer.Has("language_config") ? "language_config"
                                                          : "text_config";
  const auto nested = outer.Object(part);
  ModelConfig model = ReadFamily(nested ? *nested : outer, outer);
  model.is_nested = nested.has_value();
  ReadPositions(nested ? *nested : outer, model.positions);
  ReadStoredWeights(outer, nested, model);
  return model;
}

ModelConfig ReadHfConfig(const fs::path& path) {
  std::error_code unknown;
  if (!fs::exists(path, unknown)) {
    throw InputError(InputError::Kind::kData, path.string(), NoSuchModel(path.string()));
  }
  const fs::path file = fs::is_directory(path) ? path / "config.json" : path;
  if (!fs::exists(file, unknown)) {
    throw InputError(InputError::Kind::kData, file.string(), "not found or not readable");
  }
  ModelConfig model = ParseHfConfig(WithModelOptFile(file), file.string());
  // End-of-sequence tokens in generation_config.json override the ones in config.json.
  const fs::path generation_file = file.parent_path() / "generation_config.json";
  if (fs::exists(generation_file, unknown)) {
    const std::string generation = ReadFile(generation_file, kConfigBytesMax);
    const json parsed = ParseObject(generation, generation_file.string());
    const ConfigFields fields(parsed, generation_file.string());
    if (fields.Has("eos_token_id")) model.end_tokens = fields.TokenIds("eos_token_id");
  }
  model.shape.name = fs::absolute(file).lexically_normal().parent_path().filename().string();
  return model;
}

}  // namespace twin
