#include "core/model_presets.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/layered_presets.h"
#include "core/letter_case.h"

namespace twin {
namespace {

enum class Family : std::uint8_t {
  kGpt2,
  kBloom,
  kOpt,
  kLlama2,
  kLlama,
  kMistral,
  kFalcon,
  kQwen2,
  kQwen3
};

struct Shape {
  std::string_view name;
  Family family;
  std::int32_t layers;
  std::int32_t hidden;
  std::int32_t intermediate;
  std::int32_t query_heads;
  std::int32_t kv_heads;
  std::int32_t head_dim;
  std::int32_t vocab;
  std::int32_t max_position;
  bool tied_embeddings = false;
  std::int32_t experts = 0;
  std::int32_t experts_per_token = 0;
};

// Source: config.json of the named repositories on huggingface.co (openai-community, meta-llama,
// mistralai, codellama, internlm, 01-ai, Qwen, facebook, tiiuae; huggyllama for the first Llama),
// base models. With experts, `intermediate` is one expert's width. opt-175b: Zhang et al. 2022,
// Table 1. bloom-176b: bigscience/bloom, without the norm after its embedding, whose 28,672
// parameters no ModelSpec has; ALiBi adds to scores that are computed anyway. gpt-3: the sizes that
// Orca was measured with (Yu et al., OSDI'22, Table 1), heads of 128.
constexpr std::array kShapes = {
    Shape{"gpt2", Family::kGpt2, 12, 768, 3072, 12, 12, 64, 50257, 1024, true},
    Shape{"gpt2-medium", Family::kGpt2, 24, 1024, 4096, 16, 16, 64, 50257, 1024, true},
    Shape{"gpt2-large", Family::kGpt2, 36, 1280, 5120, 20, 20, 64, 50257, 1024, true},
    Shape{"gpt2-xl", Family::kGpt2, 48, 1600, 6400, 25, 25, 64, 50257, 1024, true},
    Shape{"gpt-3-13b", Family::kGpt2, 40, 5120, 20480, 40, 40, 128, 50257, 2048, true},
    Shape{"gpt-3-101b", Family::kGpt2, 80, 10240, 40960, 80, 80, 128, 50257, 2048, true},
    Shape{"gpt-3-175b", Family::kGpt2, 96, 12288, 49152, 96, 96, 128, 50257, 2048, true},
    Shape{"gpt-3-341b", Family::kGpt2, 120, 15360, 61440, 120, 120, 128, 50257, 2048, true},
    Shape{"bloom-176b", Family::kBloom, 70, 14336, 57344, 112, 112, 128, 250880, 2048, true},
    Shape{"opt-13b", Family::kOpt, 40, 5120, 20480, 40, 40, 128, 50272, 2048, true},
    Shape{"opt-66b", Family::kOpt, 64, 9216, 36864, 72, 72, 128, 50272, 2048, true},
    Shape{"opt-175b", Family::kOpt, 96, 12288, 49152, 96, 96, 128, 50272, 2048, true},
    Shape{"llama-7b", Family::kLlama2, 32, 4096, 11008, 32, 32, 128, 32000, 2048},
    Shape{"llama-13b", Family::kLlama2, 40, 5120, 13824, 40, 40, 128, 32000, 2048},
    Shape{"llama-33b", Family::kLlama2, 60, 6656, 17920, 52, 52, 128, 32000, 2048},
    Shape{"llama-2-7b", Family::kLlama2, 32, 4096, 11008, 32, 32, 128, 32000, 4096},
    Shape{"llama-2-13b", Family::kLlama2, 40, 5120, 13824, 40, 40, 128, 32000, 4096},
    Shape{"llama-2-70b", Family::kLlama2, 80, 8192, 28672, 64, 8, 128, 32000, 4096},
    Shape{"codellama-7b", Family::kLlama, 32, 4096, 11008, 32, 32, 128, 32016, 16384},
    Shape{"codellama-13b", Family::kLlama, 40, 5120, 13824, 40, 40, 128, 32016, 16384},
    Shape{"codellama-34b", Family::kLlama, 48, 8192, 22016, 64, 8, 128, 32000, 16384},
    Shape{"codellama-70b", Family::kLlama, 80, 8192, 28672, 64, 8, 128, 32016, 16384},
    Shape{"llama-3-8b", Family::kLlama, 32, 4096, 14336, 32, 8, 128, 128256, 8192},
    Shape{"llama-3-70b", Family::kLlama, 80, 8192, 28672, 64, 8, 128, 128256, 8192},
    Shape{"llama-3.1-8b", Family::kLlama, 32, 4096, 14336, 32, 8, 128, 128256, 131072},
    Shape{"llama-3.1-70b", Family::kLlama, 80, 8192, 28672, 64, 8, 128, 128256, 131072},
    Shape{"llama-3.1-405b", Family::kLlama, 126, 16384, 53248, 128, 8, 128, 128256, 131072},
    Shape{"llama-3.2-1b", Family::kLlama, 16, 2048, 8192, 32, 8, 64, 128256, 131072, true},
    Shape{"llama-3.2-3b", Family::kLlama, 28, 3072, 8192, 24, 8, 128, 128256, 131072, true},
    Shape{"mistral-7b", Family::kMistral, 32, 4096, 14336, 32, 8, 128, 32000, 32768},
    Shape{"mistral-nemo-12b", Family::kLlama, 40, 5120, 14336, 32, 8, 128, 131072, 131072},
    Shape{"mistral-large-2407", Family::kLlama, 88, 12288, 28672, 96, 8, 128, 32768, 131072},
    Shape{"mixtral-8x7b", Family::kLlama, 32, 4096, 14336, 32, 8, 128, 32000, 32768, false, 8, 2},
    Shape{"mixtral-8x22b", Family::kLlama, 56, 6144, 16384, 48, 8, 128, 32000, 65536, false, 8, 2},
    Shape{"falcon-180b", Family::kFalcon, 80, 14848, 59392, 232, 8, 64, 65024, 2048},
    Shape{"internlm-20b", Family::kLlama, 60, 5120, 13824, 40, 40, 128, 103168, 4096},
    Shape{"yi-6b", Family::kLlama, 32, 4096, 11008, 32, 4, 128, 64000, 4096},
    Shape{"yi-34b", Family::kLlama, 60, 7168, 20480, 56, 8, 128, 64000, 4096},
    Shape{"qwen-72b", Family::kQwen2, 80, 8192, 24576, 64, 64, 128, 152064, 32768},
    Shape{"qwen2-7b", Family::kQwen2, 28, 3584, 18944, 28, 4, 128, 152064, 131072},
    Shape{"qwen2-72b", Family::kQwen2, 80, 8192, 29568, 64, 8, 128, 152064, 131072},
    Shape{"qwen2.5-0.5b", Family::kQwen2, 24, 896, 4864, 14, 2, 64, 151936, 32768, true},
    Shape{"qwen2.5-1.5b", Family::kQwen2, 28, 1536, 8960, 12, 2, 128, 151936, 131072, true},
    Shape{"qwen2.5-3b", Family::kQwen2, 36, 2048, 11008, 16, 2, 128, 151936, 32768, true},
    Shape{"qwen2.5-7b", Family::kQwen2, 28, 3584, 18944, 28, 4, 128, 152064, 131072},
    Shape{"qwen2.5-14b", Family::kQwen2, 48, 5120, 13824, 40, 8, 128, 152064, 131072},
    Shape{"qwen2.5-32b", Family::kQwen2, 64, 5120, 27648, 40, 8, 128, 152064, 131072},
    Shape{"qwen2.5-72b", Family::kQwen2, 80, 8192, 29568, 64, 8, 128, 152064, 131072},
    Shape{"qwen3-0.6b", Family::kQwen3, 28, 1024, 3072, 16, 8, 128, 151936, 40960, true},
    Shape{"qwen3-1.7b", Family::kQwen3, 28, 2048, 6144, 16, 8, 128, 151936, 40960, true},
    Shape{"qwen3-4b", Family::kQwen3, 36, 2560, 9728, 32, 8, 128, 151936, 40960, true},
    Shape{"qwen3-8b", Family::kQwen3, 36, 4096, 12288, 32, 8, 128, 151936, 40960},
    Shape{"qwen3-14b", Family::kQwen3, 40, 5120, 17408, 40, 8, 128, 151936, 40960},
    Shape{"qwen3-32b", Family::kQwen3, 64, 5120, 25600, 64, 8, 128, 151936, 40960},
    Shape{"qwen3-30b-a3b", Family::kQwen3, 48, 2048, 768, 32, 4, 128, 151936, 40960, false, 128, 8},
    Shape{"qwen3-235b-a22b", Family::kQwen3, 94, 4096, 1536, 64, 4, 128, 151936, 40960, false, 128,
          8},
    Shape{"qwen3-coder-480b-a35b", Family::kQwen3, 62, 6144, 2560, 96, 8, 128, 151936, 262144,
          false, 160, 8},
};

constexpr std::array kLayered = {LatentPresets, MixturePresets, RecurrentPresets, DensePresets};

const std::vector<std::string_view>& Names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const Shape& shape : kShapes) all.push_back(shape.name);
    for (const auto& presets : kLayered) {
      for (const LayeredPreset& preset : presets()) all.push_back(preset.name);
    }
    return all;
  }();
  return names;
}

// Sets the fields that all models of a family share.
void ApplyFamily(Family family, ModelSpec& model) {
  switch (family) {
    case Family::kGpt2:
      model.gated_mlp = false;
      model.norm = NormKind::kLayerNorm;
      model.qkv_bias = model.output_bias = model.mlp_bias = true;
      model.learned_positions = model.max_position;
      break;
    case Family::kBloom:
      model.gated_mlp = false;
      model.norm = NormKind::kLayerNorm;
      model.qkv_bias = model.output_bias = model.mlp_bias = true;
      break;
    case Family::kOpt:
      model.gated_mlp = false;
      model.norm = NormKind::kLayerNorm;
      model.qkv_bias = model.output_bias = model.mlp_bias = true;
      model.learned_positions = model.max_position + 2;  // the first two rows are unused
      model.weight_dtype = model.kv_dtype = DType::kFp16;
      break;
    case Family::kFalcon:
      model.gated_mlp = false;
      model.norm = NormKind::kLayerNorm;
      break;
    case Family::kLlama2:
      model.weight_dtype = model.kv_dtype = DType::kFp16;
      break;
    case Family::kMistral:
      model.sliding_window = 4096;
      model.windowed_layers = model.layers;
      break;
    case Family::kQwen2:
      model.qkv_bias = true;
      break;
    case Family::kQwen3:
      model.qk_norm = true;
      break;
    case Family::kLlama:
      break;
  }
}

}  // namespace

std::optional<ModelSpec> FindModelPreset(std::string_view name) {
  for (const auto& presets : kLayered) {
    for (const LayeredPreset& preset : presets()) {
      if (!EqualsIgnoringSeparators(preset.name, name)) continue;
      ModelSpec model = preset.make();
      model.name = preset.name;
      return model;
    }
  }
  const auto* shape = std::ranges::find_if(
      kShapes, [name](const Shape& s) { return EqualsIgnoringSeparators(s.name, name); });
  if (shape == kShapes.end()) return std::nullopt;
  ModelSpec model;
  model.name = shape->name;
  model.layers = shape->layers;
  model.hidden = shape->hidden;
  model.query_heads = shape->query_heads;
  model.kv_heads = shape->kv_heads;
  model.head_dim = shape->head_dim;
  model.vocab = shape->vocab;
  model.max_position = shape->max_position;
  model.tied_embeddings = shape->tied_embeddings;
  if (shape->experts > 0) {
    model.moe = {.experts = shape->experts,
                 .experts_per_token = shape->experts_per_token,
                 .expert_intermediate = shape->intermediate};
  } else {
    model.intermediate = shape->intermediate;
  }
  ApplyFamily(shape->family, model);
  return model;
}

std::span<const std::string_view> ModelPresetNames() { return Names(); }

}  // namespace twin
