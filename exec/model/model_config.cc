#include "exec/model/model_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

#include "core/input_error.h"
#include "core/printable.h"
#include "exec/model/config_fields.h"
#include "exec/model/rope_config.h"

namespace twin::exec {
namespace {

using kernels::Activation;
namespace fs = std::filesystem;
using nlohmann::json;

// What transformers' modelling code fixes for a family and config.json therefore may not say.
struct Family {
  std::string_view model_type;
  WeightNaming naming = WeightNaming::kLlama;
  bool qkv_bias = false;
  bool qk_norm = false;
  bool tied_by_default = false;
  bool names_kv_heads = false;  // num_key_value_heads has no neutral default
  bool names_head_dim = false;  // likewise head_dim
  enum class Window : std::uint8_t { kNever, kAlways, kBySwitch, kAlternating };
  Window window = Window::kNever;
};

constexpr std::array kLlamaLike = {
    Family{.model_type = "llama"},
    Family{.model_type = "mistral", .names_kv_heads = true, .window = Family::Window::kAlways},
    Family{.model_type = "qwen2",
           .qkv_bias = true,
           .names_kv_heads = true,
           .window = Family::Window::kBySwitch},
    Family{.model_type = "qwen3",
           .qk_norm = true,
           .names_kv_heads = true,
           .names_head_dim = true,
           .window = Family::Window::kBySwitch},
    Family{.model_type = "phi3", .naming = WeightNaming::kPhi3, .window = Family::Window::kAlways},
    Family{.model_type = "gemma2",
           .tied_by_default = true,
           .names_kv_heads = true,
           .names_head_dim = true,
           .window = Family::Window::kAlternating},
    Family{.model_type = "granite"},
};
constexpr std::string_view kKnownTypes =
    "llama, mistral, qwen2, qwen3, phi3, gemma2, granite, gpt2, opt";
constexpr std::array<std::string_view, 3> kMixtures = {"mixtral", "qwen2_moe", "qwen3_moe"};

constexpr std::int32_t kLayersMost = 4096;

Activation ReadActivation(const ConfigFields& config, const char* field, const char* absent) {
  const std::string name = config.Text(field).value_or(absent);
  if (name == "silu" || name == "swish") return Activation::kSilu;
  if (name == "gelu") return Activation::kGelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Activation::kGeluTanh;
  if (name == "relu") return Activation::kRelu;
  config.Refuse(std::string(field) + " is '" + Printable(name) +
                "', must be silu, gelu, gelu_new, gelu_pytorch_tanh or relu");
}

void ReadLayers(const ConfigFields& config, const char* field, ModelConfig& model) {
  model.shape.layers = config.Size(field);
  if (model.shape.layers > kLayersMost) {
    config.Refuse(std::string(field) + " is " + std::to_string(model.shape.layers) +
                  ", must be at most " + std::to_string(kLayersMost));
  }
  model.layer_windows.assign(static_cast<std::size_t>(model.shape.layers), 0);
}

void RequireDivision(const ConfigFields& config, const char* whole, std::int32_t number,
                     const char* part, std::int32_t divisor) {
  if (number % divisor == 0) return;
  config.Refuse(std::string(whole) + " " + std::to_string(number) + " is no multiple of " + part +
                " " + std::to_string(divisor));
}

void ReadHeads(const ConfigFields& config, const Family& family, ModelSpec& shape) {
  shape.query_heads = config.Size("num_attention_heads");
  shape.kv_heads = family.names_kv_heads
                       ? config.Size("num_key_value_heads")
                       : config.OptionalSize("num_key_value_heads").value_or(shape.query_heads);
  RequireDivision(config, "num_attention_heads", shape.query_heads, "num_key_value_heads",
                  shape.kv_heads);
  if (family.names_head_dim || config.Has("head_dim")) {
    shape.head_dim = config.Size("head_dim");
    return;
  }
  RequireDivision(config, "hidden_size", shape.hidden, "num_attention_heads", shape.query_heads);
  shape.head_dim = shape.hidden / shape.query_heads;
}

// Which layers the window applies to: by layer_types where given, else by the family's rule.
std::vector<bool> WindowedLayers(const ConfigFields& config, const Family& family,
                                 std::int32_t layers) {
  std::vector<bool> windowed(static_cast<std::size_t>(layers), true);
  if (const json* types = config.Find("layer_types")) {
    const bool sound = types->is_array() && types->size() == windowed.size() &&
                       std::all_of(types->begin(), types->end(), [](const json& type) {
                         return type == "sliding_attention" || type == "full_attention";
                       });
    if (!sound) {
      config.Refuse(
          "layer_types must be a list of num_hidden_layers names, each full_attention or "
          "sliding_attention");
    }
    for (std::size_t i = 0; i < windowed.size(); ++i) {
      windowed[i] = (*types)[i] == "sliding_attention";
    }
    return windowed;
  }
  if (family.window == Family::Window::kAlternating) {
    for (std::size_t i = 1; i < windowed.size(); i += 2) windowed[i] = false;
  }
  if (family.window == Family::Window::kBySwitch) {
    constexpr std::int32_t kDefaultFullLayers = 28;  // of transformers' Qwen configurations
    const auto full = config.OptionalSize("max_window_layers", 0).value_or(kDefaultFullLayers);
    for (std::int32_t i = 0; i < std::min(full, layers); ++i) {
      windowed[static_cast<std::size_t>(i)] = false;
    }
  }
  return windowed;
}

void ReadWindow(const ConfigFields& config, const Family& family, ModelConfig& model) {
  const bool switched = family.window == Family::Window::kBySwitch;
  if (family.window == Family::Window::kNever) return;
  if (switched && !config.Flag("use_sliding_window", false)) return;
  const auto window =
      switched ? config.Size("sliding_window") : config.OptionalSize("sliding_window").value_or(0);
  if (window == 0) return;
  const auto windowed = WindowedLayers(config, family, model.shape.layers);
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    if (windowed[i]) model.layer_windows[i] = window;
  }
  model.shape.windowed_layers =
      static_cast<std::int32_t>(std::count(windowed.begin(), windowed.end(), true));
  if (model.shape.windowed_layers > 0) model.shape.sliding_window = window;
}

// What gemma2 and granite add to llama.
void ReadScales(const ConfigFields& config, const Family& family, ModelConfig& model) {
  model.attention_scale = 1 / std::sqrt(static_cast<float>(model.shape.head_dim));
  const auto number = [&](const char* field) { return static_cast<float>(config.Positive(field)); };
  const auto cap = [&](const char* field) {
    return static_cast<float>(config.OptionalPositive(field).value_or(0));
  };
  if (family.model_type == "granite") {
    model.embedding_scale = number("embedding_multiplier");
    model.residual_scale = number("residual_multiplier");
    model.attention_scale = number("attention_multiplier");
    model.logit_scale = static_cast<float>(1 / config.Positive("logits_scaling"));
  }
  if (family.model_type == "gemma2") {
    model.norm_placement = NormPlacement::kAround;
    model.shape.norms_per_layer = 4;
    model.norm_gain_offset = 1;
    model.embedding_scale = std::sqrt(static_cast<float>(model.shape.hidden));
    model.attention_scale =
        static_cast<float>(1 / std::sqrt(config.Positive("query_pre_attn_scalar")));
    model.attention_cap = cap("attn_logit_softcapping");
    model.logit_cap = cap("final_logit_softcapping");
  }
}

ModelConfig ReadLlamaLike(const ConfigFields& config, const Family& family) {
  ModelConfig model;
  ModelSpec& shape = model.shape;
  model.naming = family.naming;
  shape.hidden = config.Size("hidden_size");
  ReadLayers(config, "num_hidden_layers", model);
  shape.vocab = config.Size("vocab_size");
  shape.max_position = config.Size("max_position_embeddings");
  shape.intermediate = config.Size("intermediate_size");
  ReadHeads(config, family, shape);
  ReadWindow(config, family, model);
  ReadScales(config, family, model);
  model.rope = ReadRopeConfig(config, shape.max_position);
  model.rotary_dimensions = ReadRotaryDimensions(config, shape.head_dim);
  model.norm_epsilon = static_cast<float>(config.Positive("rms_norm_eps"));
  const bool gemma = family.model_type == "gemma2";
  model.activation = gemma ? ReadActivation(config, "hidden_activation", "gelu_pytorch_tanh")
                           : ReadActivation(config, "hidden_act", "silu");
  const bool attention_bias = config.Flag("attention_bias", false);
  shape.qkv_bias = attention_bias || family.qkv_bias;
  shape.output_bias = attention_bias;
  shape.mlp_bias = config.Flag("mlp_bias", false);
  shape.qk_norm = family.qk_norm;
  shape.tied_embeddings = config.Flag("tie_word_embeddings", family.tied_by_default);
  return model;
}

// What GPT-2 and OPT have in common: LayerNorm, a plain MLP, biases, learned positions.
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

ModelConfig ReadGpt2(const ConfigFields& config) {
  ModelConfig model;
  ModelSpec& shape = model.shape;
  model.naming = WeightNaming::kGpt2;
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
  for (const char* field : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"}) {
    if (config.Flag(field, false)) config.Refuse(std::string(field) + " true is not supported");
  }
  SetLearnedPositionFamily(model);
  if (!config.Flag("scale_attn_weights", true)) model.attention_scale = 1;
  model.norm_epsilon = static_cast<float>(config.Positive("layer_norm_epsilon"));
  model.activation = ReadActivation(config, "activation_function", "gelu_new");
  shape.tied_embeddings = config.Flag("tie_word_embeddings", true);
  return model;
}

ModelConfig ReadOpt(const ConfigFields& config) {
  ModelConfig model;
  ModelSpec& shape = model.shape;
  model.naming = WeightNaming::kOpt;
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
  model.norm_epsilon = 1e-5F;  // config.json does not say; the default of PyTorch's LayerNorm
  model.activation = ReadActivation(config, "activation_function", "relu");
  shape.tied_embeddings = config.Flag("tie_word_embeddings", true);
  return model;
}

ModelConfig ReadFamily(const ConfigFields& config) {
  const auto type = config.Text("model_type");
  const std::string known(kKnownTypes);
  if (!type) config.Refuse("model_type is missing, must be one of " + known);
  if (config.Has("quantization_config")) {
    config.Refuse("quantization_config: quantised weights are not supported");
  }
  if (*type == "gpt2") return ReadGpt2(config);
  if (*type == "opt") return ReadOpt(config);
  const auto* const family = std::find_if(kLlamaLike.begin(), kLlamaLike.end(),
                                          [&](const Family& f) { return f.model_type == *type; });
  if (family != kLlamaLike.end()) return ReadLlamaLike(config, *family);
  if (std::find(kMixtures.begin(), kMixtures.end(), *type) != kMixtures.end()) {
    config.Refuse("model_type '" + *type +
                  "': mixtures of experts are not supported, must be one of " + known);
  }
  config.Refuse("unknown model_type '" + Printable(*type) + "', must be one of " + known);
}

DType ReadStoredType(const ConfigFields& config) {
  const char* const field = config.Has("dtype") ? "dtype" : "torch_dtype";
  const auto name = config.Text(field);
  if (!name) return DType::kFp32;
  const auto type = ParseDType(*name);
  const bool known =
      type && (*type == DType::kFp32 || *type == DType::kBf16 || *type == DType::kFp16);
  if (!known) {
    config.Refuse(std::string(field) + " is '" + Printable(*name) +
                  "', must be float32, bfloat16 or float16");
  }
  return *type;
}

json ParseObject(std::string_view text, const std::string& where) {
  json parsed;
  try {
    parsed = json::parse(text);
  } catch (const json::parse_error& error) {
    throw InputError(InputError::Kind::kData, where,
                     "is not JSON (byte " + std::to_string(error.byte) + " of " +
                         std::to_string(text.size()) + ")");
  } catch (const json::exception&) {
    throw InputError(InputError::Kind::kData, where, "holds a number that cannot be represented");
  }
  if (!parsed.is_object()) {
    throw InputError(InputError::Kind::kData, where, "must be a JSON object");
  }
  return parsed;
}

std::optional<std::string> ReadText(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

ModelConfig ParseModelConfig(std::string_view text, const std::string& where) {
  const json parsed = ParseObject(text, where);
  const ConfigFields config(parsed, where);
  ModelConfig model = ReadFamily(config);
  model.shape.weight_dtype = model.shape.kv_dtype = ReadStoredType(config);
  model.end_tokens = config.TokenIds("eos_token_id");
  return model;
}

ModelConfig ReadModelConfig(const fs::path& directory) {
  if (!fs::is_directory(directory)) {
    throw InputError(InputError::Kind::kData, directory.string(),
                     "no such directory; a model is a directory with config.json");
  }
  const fs::path file = directory / "config.json";
  const auto text = ReadText(file);
  if (!text) {
    throw InputError(InputError::Kind::kData, file.string(), "not found or not readable");
  }
  ModelConfig model = ParseModelConfig(*text, file.string());
  // Where it speaks of the end of sequence, generation goes by it.
  const fs::path generation_file = directory / "generation_config.json";
  if (const auto generation = ReadText(generation_file)) {
    const json parsed = ParseObject(*generation, generation_file.string());
    const ConfigFields fields(parsed, generation_file.string());
    if (fields.Has("eos_token_id")) model.end_tokens = fields.TokenIds("eos_token_id");
  }
  const fs::path named = fs::absolute(directory).lexically_normal();
  model.shape.name = (named.has_filename() ? named : named.parent_path()).filename().string();
  return model;
}

}  // namespace twin::exec
