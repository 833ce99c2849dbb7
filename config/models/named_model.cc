#include "config/models/named_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <vector>

#include "config/models/hf_config.h"
#include "config/models/model_names.h"
#include "config/models/stored_weights.h"
#include "core/input_error.h"
#include "core/letter_case.h"
#include "core/nearest_names.h"

namespace twin {
namespace {

bool IsWordCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.';
}

// True if `word` is a whole word of `text`: "qwen3-14b" is in "qwen3-14b-awq", but "llama-3.2-1b"
// is not in "llama-3.2-1b.5" or "llama-3.2-11b".
bool ContainsWhole(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const bool begins = at == 0 || !IsWordCharacter(text[at - 1]);
    if (begins && (end == text.size() || !IsWordCharacter(text[end]))) return true;
  }
  return false;
}

// The last `count` parts of a path.
std::string_view EndOf(std::string_view path, int count) {
  while (path.ends_with('/')) path.remove_suffix(1);
  std::size_t begin = path.size() + 1;
  while (count-- > 0 && begin > 0) begin = begin < 2 ? 0 : path.find_last_of('/', begin - 2) + 1;
  return path.substr(begin);
}

std::string LowerCaseEnd(std::string_view path, int count) {
  std::string end(EndOf(path, count));
  std::ranges::transform(end, end.begin(), LowerCase);
  return end;
}

// The letters with which a preset begins: "llama" of "llama-3.1-8b", "gpt" of "gpt2".
std::string_view FamilyOf(std::string_view preset) {
  const auto* const end =
      std::ranges::find_if_not(preset, [](char c) { return c >= 'a' && c <= 'z'; });
  return preset.substr(0, static_cast<std::size_t>(end - preset.begin()));
}

// Whether a word of `name` is the preset's family, and a version or size follows. "deepseek-r1" and
// "gpt-oss-120b" are related to no preset, "deepseek-r1-distill-qwen-7b" to qwen's presets.
bool IsRelated(std::string_view name, std::string_view preset) {
  const std::string_view family = FamilyOf(preset);
  for (std::size_t at = 0; at < name.size(); ++at) {
    const bool begins = at == 0 || !IsWordCharacter(name[at - 1]);
    if (!begins || FamilyOf(name.substr(at)) != family) continue;
    std::string_view rest = name.substr(at + family.size());
    if (rest.starts_with('-')) rest.remove_prefix(1);
    if (!rest.empty() && rest.front() >= '0' && rest.front() <= '9') return true;
  }
  return false;
}

// The word that says a size: "8b" of "llama-3.1-8b-instruct", "8x7b" of "mixtral-8x7b"; empty if
// there is none.
std::string_view SizeOf(std::string_view name) {
  while (!name.empty()) {
    const std::string_view word = name.substr(0, name.find('-'));
    if (word.ends_with('b') && word.front() >= '0' && word.front() <= '9') return word;
    name.remove_prefix(std::min(word.size() + 1, name.size()));
  }
  return {};
}

// The text "; the nearest preset is ..."; empty if no preset is related.
std::string NearestPresets(std::string_view name) {
  std::string_view longest;
  std::vector<std::string_view> related;
  for (const std::string_view preset : ModelPresetNames()) {
    if (preset.size() > longest.size() && ContainsWhole(name, preset)) longest = preset;
    if (IsRelated(name, preset)) related.push_back(preset);
  }
  if (!longest.empty()) return fmt::format("; the nearest preset is {}", longest);
  if (related.empty()) return "";
  return fmt::format("; the nearest presets are {}", NearestNames(name, related));
}

ModelConfig OfPreset(ModelSpec shape) {
  ModelConfig model;
  model.shape = std::move(shape);
  return model;
}

// A repository's name is no path, unless the model lies there.
bool IsMissing(const std::string& path) {
  std::error_code unknown;
  return !std::filesystem::exists(path, unknown);
}

ModelConfig ReadStoredModel(const std::string& model, bool has_weight_dtype) {
  if (!NamesModelPath(model)) return OfPreset(ModelPreset(model));
  const std::optional<ModelSpec> known = FindModel(EndOf(model, 1));
  if (known && IsMissing(model)) return OfPreset(*known);
  ModelConfig config = ReadHfConfig(model);
  if (!config.format_problem.empty() && !has_weight_dtype) {
    throw InputError(InputError::Kind::kData, config.format_problem,
                     "also allowed is the nearest of fp32, bf16, fp16, fp8, int8 and int4 in "
                     "system.model_shape.weight_dtype");
  }
  if (!config.knows_formats && !has_weight_dtype) {
    throw InputError(
        InputError::Kind::kData, model,
        fmt::format("quantization_config: weights of {} are not modelled; allowed: "
                    "methods fp8, mxfp4, compressed-tensors and modelopt, 4 bits of "
                    "method gptq (formats gptq, gptq_v2) or awq (version gemm), or the "
                    "nearest of fp32, bf16, fp16, fp8, int8 "
                    "and int4 in system.model_shape.weight_dtype",
                    QuantizationText(config)));
  }
  return config;
}

}  // namespace

bool NamesModelPath(std::string_view model) { return model.find('/') != std::string_view::npos; }

ModelConfig ReadNamedModel(const std::string& model, bool has_weight_dtype) {
  ModelConfig config = ReadStoredModel(model, has_weight_dtype);
  if (has_weight_dtype) {
    config.shape.formats = {};
    config.format_note.clear();
  }
  return config;
}

ModelSpec ReadNamedShape(const std::string& model, bool has_weight_dtype) {
  return ReadNamedModel(model, has_weight_dtype).shape;
}

std::string NearestModels(std::string_view model) {
  const std::string name = LowerCaseEnd(model, 1);
  std::vector<std::string_view> related;
  std::vector<std::string_view> of_size;
  for (const std::string_view preset : ModelPresetNames()) {
    if (GoesOnBehind(preset, name)) return NearestNames(name, ModelPresetNames());
  }
  for (const std::string_view preset : ModelPresetNames()) {
    if (!IsRelated(name, preset)) continue;
    related.push_back(preset);
    if (SizeOf(preset) == SizeOf(name)) of_size.push_back(preset);
  }
  if (!of_size.empty()) return NearestNames(name, of_size);
  return related.empty() ? NearestNames(name, ModelPresetNames()) : NearestNames(name, related);
}

std::string NoSuchModel(std::string_view path) {
  const std::string_view name = EndOf(path, 1);
  return fmt::format(
      "no such file or directory, and no preset is called {}; allowed: the name of a preset, the "
      "path of a config.json, or its directory; of a model on huggingface.co: hf download {} "
      "config.json --local-dir {}{}",
      name, EndOf(path, 2), name, NearestPresets(LowerCaseEnd(path, 1)));
}

}  // namespace twin
