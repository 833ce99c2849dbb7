#include "core/model_names.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/input_error.h"
#include "core/letter_case.h"
#include "core/model_presets.h"
#include "core/nearest_names.h"

namespace twin {
namespace {

// Checkpoints with the shape of a preset and another name; max_position 0 = that of the preset.
// Source: their config.json.
struct Alias {
  std::string_view name;
  std::string_view preset;
  std::int32_t max_position = 0;
};
constexpr std::array kAliases = {
    Alias{"bloom", "bloom-176b"},
    Alias{"c4ai-command-a-03-2025", "command-a-111b"},
    Alias{"c4ai-command-r7b-12-2024", "command-r7b-12-2024"},
    Alias{"codellama-70b-instruct", "codellama-70b", 4096},
    Alias{"deepseek-coder-v2-lite", "deepseek-v2-lite"},
    Alias{"deepseek-r1", "deepseek-v3"},
    Alias{"deepseek-r1-0528", "deepseek-v3"},
    Alias{"deepseek-r1-distill-llama-70b", "llama-3.1-70b"},
    Alias{"deepseek-r1-distill-llama-8b", "llama-3.1-8b"},
    Alias{"deepseek-r1-distill-qwen-14b", "qwen2.5-14b", 131072},
    Alias{"deepseek-r1-distill-qwen-32b", "qwen2.5-32b", 131072},
    Alias{"deepseek-r1-distill-qwen-7b", "qwen2.5-7b", 131072},
    Alias{"deepseek-v2.5", "deepseek-v2"},
    Alias{"deepseek-v3-0324", "deepseek-v3"},
    Alias{"deepseek-v3.1", "deepseek-v3"},
    Alias{"deepseek-v3.1-terminus", "deepseek-v3"},
    Alias{"deepseek-v3.2-exp", "deepseek-v3.2"},
    Alias{"deepseek-v3.2-speciale", "deepseek-v3.2"},
    Alias{"dots.llm1.base", "dots.llm1"},
    Alias{"dots.llm1.inst", "dots.llm1"},
    Alias{"ernie-4.5-21b-a3b-pt", "ernie-4.5-21b-a3b"},
    Alias{"ernie-4.5-21b-a3b-thinking", "ernie-4.5-21b-a3b"},
    Alias{"ernie-4.5-300b-a47b-pt", "ernie-4.5-300b-a47b"},
    Alias{"glm-4.6", "glm-4.5", 202752},
    Alias{"glm-4.6v", "glm-4.5-air"},
    Alias{"glm-4.7", "glm-4.5", 202752},
    Alias{"glm-5.1", "glm-5"},
    Alias{"glm-5.3", "glm-5.2"},
    Alias{"kimi-k2-0905", "kimi-k2", 262144},
    Alias{"kimi-k2-instruct-0905", "kimi-k2", 262144},
    Alias{"kimi-k2-thinking", "kimi-k2.5"},
    Alias{"kimi-k2.6", "kimi-k2.5"},
    Alias{"kimi-k2.7-code", "kimi-k2.5"},
    Alias{"llama-3.3-70b", "llama-3.1-70b"},
    Alias{"llama-3.3-nemotron-super-49b-v1", "llama-3.3-nemotron-super-49b"},
    Alias{"llama-3.3-nemotron-super-49b-v1.5", "llama-3.3-nemotron-super-49b"},
    Alias{"llama-3_1-nemotron-ultra-253b-v1", "llama-3.1-nemotron-ultra-253b"},
    Alias{"llama-3_3-nemotron-super-49b-v1", "llama-3.3-nemotron-super-49b"},
    Alias{"llama-3_3-nemotron-super-49b-v1_5", "llama-3.3-nemotron-super-49b"},
    Alias{"llama-4-maverick-17b-128e", "llama-4-maverick"},
    Alias{"llama-4-scout-17b-16e", "llama-4-scout"},
    Alias{"minimax-m2.1", "minimax-m2"},
    Alias{"minimax-m2.7", "minimax-m2", 204800},
    Alias{"ministral-3-8b-2512", "ministral-3-8b"},
    Alias{"ministral-3-8b-reasoning-2512", "ministral-3-8b"},
    Alias{"mistral-7b-instruct-v0.3", "mistral-7b-v0.3"},
    Alias{"mistral-large-123b", "mistral-large-2407"},
    Alias{"mistral-nemo-base-2407", "mistral-nemo-12b"},
    Alias{"mistral-nemo-instruct-2407", "mistral-nemo-12b"},
    Alias{"mistral-small-24b-2501", "mistral-small-24b"},
    Alias{"mistral-small-4-119b-2603", "mistral-small-4-119b"},
    Alias{"mixtral-8x22b-v0.1", "mixtral-8x22b"},
    Alias{"mixtral-8x7b-v0.1", "mixtral-8x7b"},
    Alias{"nemotron-h-56b-8k", "nemotron-h-56b"},
    Alias{"olmo-3-1025-7b", "olmo-3-7b"},
    Alias{"olmo-3-1125-32b", "olmo-3-32b"},
    Alias{"qwen2-72b-instruct", "qwen2-72b", 32768},
    Alias{"qwen2-7b-instruct", "qwen2-7b", 32768},
    Alias{"qwen2.5-1.5b-instruct", "qwen2.5-1.5b", 32768},
    Alias{"qwen2.5-14b-instruct", "qwen2.5-14b", 32768},
    Alias{"qwen2.5-32b-instruct", "qwen2.5-32b", 32768},
    Alias{"qwen2.5-72b-instruct", "qwen2.5-72b", 32768},
    Alias{"qwen2.5-7b-instruct", "qwen2.5-7b", 32768},
    Alias{"qwen3-0.6b-base", "qwen3-0.6b", 32768},
    Alias{"qwen3-1.7b-base", "qwen3-1.7b", 32768},
    Alias{"qwen3-14b-base", "qwen3-14b", 32768},
    Alias{"qwen3-235b-a22b-instruct-2507", "qwen3-235b-a22b", 262144},
    Alias{"qwen3-235b-a22b-thinking-2507", "qwen3-235b-a22b", 262144},
    Alias{"qwen3-30b-a3b-base", "qwen3-30b-a3b", 32768},
    Alias{"qwen3-30b-a3b-instruct-2507", "qwen3-30b-a3b", 262144},
    Alias{"qwen3-30b-a3b-thinking-2507", "qwen3-30b-a3b", 262144},
    Alias{"qwen3-4b-base", "qwen3-4b", 32768},
    Alias{"qwen3-4b-instruct-2507", "qwen3-4b", 262144},
    Alias{"qwen3-4b-thinking-2507", "qwen3-4b", 262144},
    Alias{"qwen3-8b-base", "qwen3-8b", 32768},
    Alias{"qwen3-coder-30b-a3b", "qwen3-30b-a3b", 262144},
    Alias{"qwen3-next-80b-a3b-thinking", "qwen3-next-80b-a3b"},
    Alias{"qwen3-vl-235b-a22b-instruct", "qwen3-235b-a22b", 262144},
    Alias{"qwen3-vl-235b-a22b-thinking", "qwen3-235b-a22b", 262144},
    Alias{"qwen3-vl-2b", "qwen3-1.7b", 262144},
    Alias{"qwen3-vl-30b-a3b", "qwen3-30b-a3b", 262144},
    Alias{"qwen3-vl-32b", "qwen3-32b", 262144},
    Alias{"qwen3-vl-32b-thinking", "qwen3-32b", 262144},
    Alias{"qwen3-vl-4b", "qwen3-4b", 262144},
    Alias{"qwen3-vl-8b", "qwen3-8b", 262144},
    Alias{"qwen3.6-27b", "qwen3.5-27b"},
    Alias{"qwen3.6-35b-a3b", "qwen3.5-35b-a3b"},
};

// Models that people ask for and that a ModelSpec cannot describe; names begin with `name`.
struct NotDescribed {
  std::string_view name;
  std::string_view why;
};
constexpr std::array kNotDescribed = {
    NotDescribed{"phi-2", "attention and MLP of a layer share a norm and run side by side"},
    NotDescribed{"decilm-7b", "its layers differ in their KV heads"},
    NotDescribed{"deepseek-v4",
                 "its layers compress keys and choose experts by a hash of the token"},
    NotDescribed{"jamba", "its state-space layers are of Mamba-1"},
};

std::optional<ModelSpec> FindPresetOrAlias(std::string_view name) {
  if (std::optional<ModelSpec> preset = FindModelPreset(name)) return preset;
  const auto* const alias = std::ranges::find_if(
      kAliases, [&](const Alias& a) { return EqualsIgnoringSeparators(a.name, name); });
  if (alias == kAliases.end()) return std::nullopt;
  std::optional<ModelSpec> model = FindModelPreset(alias->preset);
  model->name = alias->name;
  if (alias->max_position > 0) model->max_position = alias->max_position;
  return model;
}

// `name` without the first occurrence of `word` that ends there or is followed by a dash; `name`
// itself if there is none.
std::string Without(const std::string& name, std::string_view word) {
  for (std::size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if (end == name.size() || name[end] == '-') return name.substr(0, at) + name.substr(end);
  }
  return name;
}

std::optional<ModelSpec> FindShape(std::string name) {
  for (const std::string_view publisher : {"meta-", "nvidia-"}) {
    if (name.starts_with(publisher)) name.erase(0, publisher.size());
  }
  if (std::optional<ModelSpec> model = FindPresetOrAlias(name)) return model;
  for (const std::string_view word : {"-hf", "-bf16", "-instruct", "-chat", "-it", "-base"}) {
    std::string shorter = Without(name, word);
    if (shorter == name) continue;
    name = std::move(shorter);
    if (std::optional<ModelSpec> model = FindPresetOrAlias(name)) return model;
  }
  return std::nullopt;
}

bool HasRecurrence(const ModelSpec& model) {
  const auto has = [](const LayerGroup& group) { return group.layer.recurrent.has_value(); };
  return std::ranges::any_of(model.groups, has);
}

// Scales of blocks, but of Llama's checkpoints, which have one for a matrix.
void StoreInFp8(ModelSpec& model) {
  StoreWeightsAs(model.name.starts_with("llama") ? DType::kFp8 : DType::kFp8Block, model);
}

// As NVIDIA's ModelOpt stores them: all of a dense model; the MLPs of a mixture, and beside
// recurrent layers its attention and experts.
void StoreInNvfp4(ModelSpec& model) {
  model.kv_dtype = DType::kFp8;
  if (MostExperts(model) == 0) return StoreWeightsAs(DType::kNvfp4, model);
  StoreWeightsAs(DType::kBf16, model);
  model.formats.experts = DType::kNvfp4;
  if (HasRecurrence(model)) {
    model.formats.attention = DType::kNvfp4;
  } else {
    model.formats.dense = model.formats.shared = DType::kNvfp4;
  }
}

void StoreExpertsOrAll(ModelSpec& model, DType experts, DType all) {
  const bool mixes = MostExperts(model) > 0;
  StoreWeightsAs(mixes ? DType::kBf16 : all, model);
  if (mixes) model.formats.experts = experts;
}

struct FormatSuffix {
  std::string_view suffix;
  void (*apply)(ModelSpec& model);
};
constexpr std::array kFormatSuffixes = {
    FormatSuffix{"-fp8", StoreInFp8},
    FormatSuffix{"-nvfp4", StoreInNvfp4},
    FormatSuffix{"-fp4", StoreInNvfp4},
    FormatSuffix{"-mxfp4",
                 [](ModelSpec& m) { StoreExpertsOrAll(m, DType::kMxfp4, DType::kMxfp4); }},
    FormatSuffix{"-int4",
                 [](ModelSpec& m) { StoreExpertsOrAll(m, DType::kInt4Group32, DType::kInt4); }},
};

}  // namespace

void StoreWeightsAs(DType format, ModelSpec& model) {
  model.weight_dtype = format;
  model.formats = {};
}

std::optional<DType> UniformFormat(const ModelSpec& model) {
  if (model.formats != WeightFormats{}) return std::nullopt;
  return model.weight_dtype;
}

std::optional<ModelSpec> FindModel(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), LowerCase);
  if (std::optional<ModelSpec> model = FindShape(lower)) return model;
  for (const FormatSuffix& format : kFormatSuffixes) {
    if (!lower.ends_with(format.suffix)) continue;
    std::optional<ModelSpec> model =
        FindShape(lower.substr(0, lower.size() - format.suffix.size()));
    if (!model) continue;
    format.apply(*model);
    model->name += format.suffix;
    return model;
  }
  return std::nullopt;
}

ModelSpec ModelPreset(std::string_view name) {
  if (std::optional<ModelSpec> model = FindModel(name)) return *std::move(model);
  const std::string nearest = "nearest: " + NearestNames(name, ModelPresetNames());
  if (const std::string_view why = WhyNotDescribed(name); !why.empty()) {
    throw InputError(InputError::Kind::kUsage, "model",
                     "'" + std::string(name) + "' has no preset, as " + std::string(why) +
                         ", which a model's shape cannot say; " + nearest);
  }
  throw InputError(InputError::Kind::kUsage, "model",
                   "unknown model '" + std::string(name) + "'; " + nearest);
}

std::string_view WhyNotDescribed(std::string_view name) {
  const std::string_view bare = name.substr(name.rfind('/') + 1);
  for (const NotDescribed& model : kNotDescribed) {
    if (EqualsIgnoringSeparators(bare.substr(0, model.name.size()), model.name)) return model.why;
  }
  return {};
}

}  // namespace twin
