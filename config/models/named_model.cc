#include "config/models/named_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <vector>

#include "config/models/hf_config.h"
#include "config/models/stored_weights.h"
#include "core/input_error.h"
#include "core/letter_case.h"
#include "core/model_presets.h"
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

// Repositories on huggingface.co whose config.json has exactly the shape of a preset that begins
// with `preset`. A repository is called `repository`, the rest of the preset's name, and one of
// `ends`.
struct Checkpoints {
  std::string_view preset;
  std::string_view repository;  // lower case
  std::array<std::string_view, 3> ends;
};
constexpr std::string_view kNone = "/";  // no repository's name has this end
constexpr std::array kCheckpoints = {
    Checkpoints{"gpt2", "openai-community/gpt2", {"", kNone, kNone}},
    Checkpoints{"opt-", "facebook/opt-", {"", kNone, kNone}},
    Checkpoints{"llama-7b", "huggyllama/llama-7b", {"", kNone, kNone}},
    Checkpoints{"llama-13b", "huggyllama/llama-13b", {"", kNone, kNone}},
    Checkpoints{"llama-2-", "meta-llama/llama-2-", {"-hf", "-chat-hf", kNone}},
    Checkpoints{"codellama-7b", "codellama/codellama-7b", {"-hf", "-instruct-hf", kNone}},
    Checkpoints{"codellama-13b", "codellama/codellama-13b", {"-hf", "-instruct-hf", kNone}},
    Checkpoints{"codellama-34b", "codellama/codellama-34b", {"-hf", "-instruct-hf", kNone}},
    Checkpoints{"codellama-70b", "codellama/codellama-70b", {"-hf", kNone, kNone}},
    Checkpoints{"bloom-176b", "bigscience/bloom", {"", kNone, kNone}},
    Checkpoints{"internlm-20b", "internlm/internlm-20b", {"", kNone, kNone}},
    Checkpoints{"llama-3", "meta-llama/meta-llama-3", {"", "-instruct", kNone}},
    Checkpoints{"llama-3", "meta-llama/llama-3", {"", "-instruct", kNone}},
    Checkpoints{"llama-3.1-70b", "meta-llama/llama-3.3-70b-instruct", {"", kNone, kNone}},
    Checkpoints{"mistral-7b", "mistralai/mistral-7b", {"-v0.1", "-instruct-v0.1", kNone}},
    Checkpoints{
        "mistral-nemo-12b", "mistralai/mistral-nemo", {"-base-2407", "-instruct-2407", kNone}},
    Checkpoints{"mistral-large-2407", "mistralai/mistral-large-instruct-2407", {"", kNone, kNone}},
    Checkpoints{"mixtral-8x7b", "mistralai/mixtral-8x7b", {"-v0.1", "-instruct-v0.1", kNone}},
    Checkpoints{"mixtral-8x22b", "mistralai/mixtral-8x22b-v0.1", {"", kNone, kNone}},
    Checkpoints{"falcon-180b", "tiiuae/falcon-180b", {"", "-chat", kNone}},
    Checkpoints{"yi-", "01-ai/yi-", {"", "-chat", kNone}},
    Checkpoints{"qwen-72b", "qwen/qwen-72b", {"", "-chat", kNone}},
    Checkpoints{"qwen2-", "qwen/qwen2-", {"", kNone, kNone}},
    Checkpoints{"qwen2-7b", "qwen/qwen-2-7b", {"", kNone, kNone}},  // as Vidur calls it
    Checkpoints{"qwen2.5-", "qwen/qwen2.5-", {"", kNone, kNone}},
    Checkpoints{"qwen3-", "qwen/qwen3-", {"", kNone, kNone}},
    Checkpoints{"qwen3-coder-480b-a35b", "qwen/qwen3-coder-480b-a35b", {"-instruct", kNone, kNone}},
};

bool IsCheckpoint(std::string_view name, std::string_view preset, const Checkpoints& known) {
  if (!preset.starts_with(known.preset)) return false;
  const std::string stem =
      std::string(known.repository) + std::string(preset.substr(known.preset.size()));
  return std::ranges::any_of(known.ends, [&](std::string_view end) {
    return name.starts_with(stem) && name.substr(stem.size()) == end;
  });
}

ModelConfig OfPreset(std::string_view preset) {
  ModelConfig model;
  model.shape = ModelPreset(preset);
  return model;
}

// A repository's name is no path, unless the model lies there.
bool IsMissing(const std::string& path) {
  std::error_code unknown;
  return !std::filesystem::exists(path, unknown);
}

}  // namespace

bool NamesModelPath(std::string_view model) { return model.find('/') != std::string_view::npos; }

ModelConfig ReadNamedModel(const std::string& model, bool has_weight_dtype) {
  if (!NamesModelPath(model)) return OfPreset(model);
  const std::string_view preset = FindCheckpointPreset(model);
  if (!preset.empty() && IsMissing(model)) return OfPreset(preset);
  ModelConfig config = ReadHfConfig(model);
  const bool has_cost =
      config.quantization.empty() || config.quantization == "fp8" || config.int4.has_value();
  if (!has_cost && !has_weight_dtype) {
    throw InputError(InputError::Kind::kData, model,
                     fmt::format("quantization_config: weights of {} are not modelled; allowed: "
                                 "method fp8, 4 bits of method gptq (formats gptq, gptq_v2) or awq "
                                 "(version gemm), or the nearest of fp32, bf16, fp16, fp8, int8 "
                                 "and int4 in system.model_shape.weight_dtype",
                                 QuantizationText(config)));
  }
  return config;
}

ModelSpec ReadNamedShape(const std::string& model, bool has_weight_dtype) {
  return ReadNamedModel(model, has_weight_dtype).shape;
}

std::string_view FindCheckpointPreset(std::string_view path) {
  const std::string name = LowerCaseEnd(path, 2);
  for (const std::string_view preset : ModelPresetNames()) {
    const auto is_checkpoint = [&](const Checkpoints& known) {
      return IsCheckpoint(name, preset, known);
    };
    if (std::ranges::any_of(kCheckpoints, is_checkpoint)) return preset;
  }
  return {};
}

std::string NearestModels(std::string_view model) {
  const std::string name = LowerCaseEnd(model, 1);
  std::vector<std::string_view> related;
  std::vector<std::string_view> of_size;
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
