#include "models/named_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/input_error.h"
#include "core/model_presets.h"
#include "core/nearest_names.h"
#include "models/hf_config.h"

namespace twin {
namespace {

bool IsWordCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.';
}

// "qwen3-14b" is in "qwen3-14b-awq"; "llama-3.2-1b" is not in "llama-3.2-1b.5" or "llama-3.2-11b".
bool ContainsWhole(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const bool begins = at == 0 || !IsWordCharacter(text[at - 1]);
    if (begins && (end == text.size() || !IsWordCharacter(text[end]))) return true;
  }
  return false;
}

std::string LowerCaseLastPart(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  std::string part(path.substr(path.find_last_of('/') + 1));
  std::transform(part.begin(), part.end(), part.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return part;
}

}  // namespace

bool NamesModelPath(std::string_view model) { return model.find('/') != std::string_view::npos; }

ModelSpec ReadNamedShape(const std::string& model, bool has_weight_dtype) {
  if (!NamesModelPath(model)) return ModelPreset(model);
  const ModelConfig config = ReadHfConfig(model);
  const bool has_cost =
      config.quantization.empty() || config.quantization == "fp8" || config.int4.has_value();
  if (!has_cost && !has_weight_dtype) {
    throw InputError(InputError::Kind::kData, model,
                     fmt::format("quantization_config: weights of method {} are not modelled; "
                                 "allowed: the nearest of fp32, bf16, fp16, fp8, int8 and int4 in "
                                 "system.model_shape.weight_dtype",
                                 config.quantization));
  }
  return config.shape;
}

std::string SuggestPreset(std::string_view path) {
  const std::string name = LowerCaseLastPart(path);
  std::string_view longest;
  for (const std::string_view preset : ModelPresetNames()) {
    if (preset.size() > longest.size() && ContainsWhole(name, preset)) longest = preset;
  }
  if (!longest.empty()) return fmt::format("the nearest preset is {}", longest);
  return fmt::format("the nearest presets are {}", NearestNames(name, ModelPresetNames()));
}

}  // namespace twin
