#include "config/models/hf_config.h"

#include <fmt/format.h>

#include <cctype>
#include <limits>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>

#include "config/models/config_fields.h"
#include "config/models/families.h"
#include "config/models/layered_computation.h"
#include "config/models/layered_fields.h"
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

ModelConfig ReadPlain(const ConfigFields& config, const ModelFamily& family) {
  ModelConfig model = family.read(config, family);
  model.naming = family.naming;
  model.activation = ReadActivation(config, family);
  model.shape.tied_embeddings = config.Flag("tie_word_embeddings", family.tied_embeddings);
  return model;
}

// MiniMax-M2 names num_mtp_modules, but its weights hold none.
bool HasMtpModule(const ConfigFields& fields) {
  return fields.Or("num_nextn_predict_layers", 0) > 0 || fields.Or("mtp_num_hidden_layers", 0) > 0;
}

// The module's layer is as the model's last one; one that reuses an index owns its own.
LayerSpec MtpLayerOf(const ModelSpec& model) {
  LayerSpec layer = OrderedLayers(model).back().layer;
  if (layer.latent) layer.latent->reuses_index = false;
  return layer;
}

// `outer` has tie_word_embeddings if `config` has none.
ModelConfig ReadLayered(const ConfigFields& config, const ConfigFields& outer,
                        const ModelFamily& family) {
  ModelConfig model;
  ModelSpec& shape = model.shape;
  shape = family.read_layers(config);
  config.RefuseUnknownLayers();
  if (HasMtpModule(config) && !shape.mtp_layer) {
    const LayerSpec layer = MtpLayerOf(shape);
    // A last layer without attention and state says nothing of the module.
    if (layer.query_heads > 0 || layer.recurrent) shape.mtp_layer = layer;
  }
  const bool tied = outer.Flag("tie_word_embeddings", family.tied_embeddings);
  shape.tied_embeddings = config.Flag("tie_word_embeddings", tied);
  ReadLayeredComputation(config, family, model);
  return model;
}

void ReadEndTokens(const ConfigFields& config, const ModelFamily& family, ModelConfig& model) {
  if (config.Has("eos_token_id")) {
    model.end_tokens = config.TokenIds("eos_token_id");
  } else if (family.end_token && !config.IsNull("eos_token_id")) {
    model.end_tokens = {*family.end_token};
  }
}

ModelConfig ReadFamily(const ConfigFields& config, const ConfigFields& outer) {
  // The text part of a multi-modal model may leave its type to the whole.
  const auto own = config.Text("model_type");
  const auto type = own ? own : outer.Text("model_type");
  if (!type) {
    config.Refuse("model_type is missing, must be one of " + PlainFamilyNames());
  }
  const ModelFamily* const family = FindModelFamily(*type);
  if (family == nullptr) {
    config.Refuse(fmt::format("unknown model_type '{}', must be one of {}", Printable(*type),
                              ModelFamilyNames()));
  }
  if (!family->refused.empty()) {
    config.Refuse(fmt::format("model_type {} is refused: {}", *type, family->refused));
  }
  ModelConfig model =
      family->is_plain() ? ReadPlain(config, *family) : ReadLayered(config, outer, *family);
  model.model_type = *type;
  ReadEndTokens(config, *family, model);
  if (!family->is_plain()) return model;
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
