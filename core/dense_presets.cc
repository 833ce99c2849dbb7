// Source: config.json of the named repositories on huggingface.co, and the classes of transformers
// 5.24 for what they leave out; tests/unit/core/layered_presets_test.cc has the published totals.
#include <array>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "core/layered_presets.h"
#include "core/preset_layers.h"

namespace twin {
namespace {

using namespace presets;

// ---- Dense models with windows ----

ModelSpec Gemma(const Frame& frame, std::string_view pattern, const LayerSpec& heads,
                std::int32_t window, std::int32_t width) {
  const LayerSpec full = WithNorms(Dense(heads, width), 4);
  return Model(frame, pattern, {{"F", full}, {"W", Windowed(full, window)}});
}
ModelSpec Gemma2A2b() {
  return Gemma({2304, 256000, 8192, true}, "13(W F)", Heads(8, 4, 256), 4096, 9216);
}
ModelSpec Gemma2A9b() {
  return Gemma({3584, 256000, 8192, true}, "21(W F)", Heads(16, 8, 256), 4096, 14336);
}
ModelSpec Gemma2A27b() {
  return Gemma({4608, 256000, 8192, true}, "23(W F)", Heads(32, 16, 128), 4096, 36864);
}
ModelSpec Gemma3A1b() {
  return Gemma({1152, 262144, 32768, true}, "4(5W F) 2W", NormedHeads(4, 1, 256), 512, 6912);
}
ModelSpec Gemma3A4b() {
  return Gemma({2560, 262208, 131072, true}, "5(5W F) 4W", NormedHeads(8, 4, 256), 1024, 10240);
}
ModelSpec Gemma3A12b() {
  return Gemma({3840, 262208, 131072, true}, "8(5W F)", NormedHeads(16, 8, 256), 1024, 15360);
}
ModelSpec Gemma3A27b() {
  return Gemma({5376, 262208, 131072, true}, "10(5W F) 2W", NormedHeads(32, 16, 128), 1024, 21504);
}
ModelSpec Gemma4A31b() {
  LayerSpec near = WithNorms(Dense(Windowed(NormedHeads(32, 16, 256), 1024), 21504), 4);
  LayerSpec full = WithNorms(Dense(NormedHeads(32, 4, 512), 21504), 4);
  full.keys_are_values = true;
  return Model({5376, 262144, 262144, true}, "10(5W F)", {{"W", near}, {"F", full}});
}

ModelSpec WindowsBesideFull(const Frame& frame, std::string_view pattern, const LayerSpec& full) {
  return Model(frame, pattern, {{"F", full}, {"W", Windowed(full, 4096)}});
}
ModelSpec Mistral7bV01() {
  return WindowsBesideFull({4096, 32000, 32768}, "32W", Dense(Heads(32, 8, 128), 14336));
}
ModelSpec CommandR7b() {
  return WindowsBesideFull({4096, 256000, 132096, true}, "8(3W F)",
                           Alone(Dense(Heads(32, 8, 128), 14336)));
}
ModelSpec CommandA() {
  return WindowsBesideFull({12288, 256000, 131072, true}, "16(3W F)",
                           Alone(Dense(Heads(96, 8, 128), 36864)));
}
ModelSpec Exaone4() {
  return WindowsBesideFull({5120, 102400, 131072}, "16(3W F)",
                           Dense(NormedHeads(40, 8, 128), 27392));
}
ModelSpec Olmo3A7b() {
  LayerSpec heads = Heads(32, 32, 128);
  heads.full_qk_norm = true;
  return WindowsBesideFull({4096, 100278, 65536}, "8(3W F)", Dense(heads, 11008));
}
ModelSpec Olmo3A32b() {
  LayerSpec heads = Heads(40, 8, 128);
  heads.full_qk_norm = true;
  return WindowsBesideFull({5120, 100278, 65536}, "16(3W F)", Dense(heads, 27648));
}
ModelSpec Phi3Mini4k() {
  return Model({3072, 32064, 4096}, "32W", {{"W", Dense(Windowed(Heads(32, 32, 96), 2047), 8192)}});
}

// Layers of neural architecture search (arXiv 2411.19146): F has attention and an MLP of the width
// behind the letter, d an MLP alone, and - returns its input.
ModelSpec Searched(const Frame& frame, std::string_view pattern, const LayerSpec& heads,
                   std::initializer_list<std::int32_t> with_attention,
                   std::initializer_list<std::int32_t> alone) {
  std::vector<std::pair<std::string, LayerSpec>> layers = {{"-", WithNorms({}, 0)}};
  for (const std::int32_t width : with_attention) {
    layers.emplace_back("F" + std::to_string(width), Dense(heads, width));
  }
  for (const std::int32_t width : alone) {
    layers.emplace_back("d" + std::to_string(width), Alone(Dense({}, width)));
  }
  std::vector<LayerSymbol> symbols;
  for (const auto& [symbol, layer] : layers) symbols.push_back({symbol, layer});
  return Model(frame, pattern, symbols);
}

ModelSpec NemotronSuper49b() {
  return Searched(
      {8192, 128256, 131072},
      "F14336 5F28672 2d14336 3F28672 d17920 30F28672 d7168 2d14336 d7168 d28672 d7168 d14336 "
      "3d7168 F28672 d7168 2d5632 d7168 3d5632 2d7168 2d2816 2d5632 2d2816 d5632 2d2816 9F28672",
      Heads(64, 8, 128), {14336, 28672}, {2816, 5632, 7168, 14336, 17920, 28672});
}

ModelSpec NemotronUltra253b() {
  return Searched(
      {16384, 128256, 131072},
      "F5376 F10752 6F16128 F21504 4- 3F21504 2F53248 6- 3F53248 5- 3F53248 F26624 3- 3F21504 "
      "d21504 F53248 d53248 5- 4F53248 5- 4F53248 5- 4F53248 5- 4F53248 5- F53248 3F37376 2- "
      "F32000 3F26624 2d26624 F26624 - 7d26624 F26624 5- F32000 F53248 d53248 F53248 8- d399360 "
      "8- d425984 8- d343040 5- d301056 d21504 F21504 F26624 - 2F26624 F37376 4F53248 F26624",
      Heads(128, 8, 128), {5376, 10752, 16128, 21504, 26624, 32000, 37376, 53248},
      {21504, 26624, 53248, 301056, 343040, 399360, 425984});
}

// ---- Equal layers ----

ModelSpec Ministral3A8b() {
  return Model({4096, 131072, 262144}, "34F", {{"F", Dense(Heads(32, 8, 128), 14336)}});
}
ModelSpec MistralSmall24b() {
  return Model({5120, 131072, 32768}, "40F", {{"F", Dense(Heads(32, 8, 128), 32768)}});
}
ModelSpec Mistral7bV03() {
  return Model({4096, 32768, 32768}, "32F", {{"F", Dense(Heads(32, 8, 128), 14336)}});
}
ModelSpec Phi35Moe() {
  LayerSpec heads = Heads(32, 8, 128);
  heads.qkv_bias = true;
  return Model({4096, 32064, 131072}, "32F", {{"F", Mixture(heads, Experts(16, 2, 6400))}});
}
ModelSpec Phi4() {
  return Model({5120, 100352, 16384}, "40F", {{"F", Dense(Heads(40, 10, 128), 17920)}});
}
ModelSpec SmolLm3() {
  return Model({2048, 128256, 65536, true}, "36F", {{"F", Dense(Heads(16, 4, 128), 11008)}});
}
ModelSpec SeedOss36b() {
  LayerSpec heads = Heads(80, 8, 128);
  heads.qkv_bias = true;
  return Model({5120, 155136, 524288}, "64F", {{"F", Dense(heads, 27648)}});
}

constexpr std::array kDensePresets = {
    LayeredPreset{"gemma-2-2b", Gemma2A2b},
    LayeredPreset{"gemma-2-9b", Gemma2A9b},
    LayeredPreset{"gemma-2-27b", Gemma2A27b},
    LayeredPreset{"gemma-3-1b", Gemma3A1b},
    LayeredPreset{"gemma-3-4b", Gemma3A4b},
    LayeredPreset{"gemma-3-12b", Gemma3A12b},
    LayeredPreset{"gemma-3-27b", Gemma3A27b},
    LayeredPreset{"gemma-4-31b", Gemma4A31b},
    LayeredPreset{"mistral-7b-v0.1", Mistral7bV01},
    LayeredPreset{"mistral-7b-v0.3", Mistral7bV03},
    LayeredPreset{"mistral-small-24b", MistralSmall24b},
    LayeredPreset{"ministral-3-8b", Ministral3A8b},
    LayeredPreset{"phi-3-mini-4k", Phi3Mini4k},
    LayeredPreset{"phi-3.5-moe", Phi35Moe},
    LayeredPreset{"phi-4", Phi4},
    LayeredPreset{"command-r7b-12-2024", CommandR7b},
    LayeredPreset{"command-a-111b", CommandA},
    LayeredPreset{"exaone-4.0-32b", Exaone4},
    LayeredPreset{"olmo-3-7b", Olmo3A7b},
    LayeredPreset{"olmo-3-32b", Olmo3A32b},
    LayeredPreset{"smollm3-3b", SmolLm3},
    LayeredPreset{"seed-oss-36b", SeedOss36b},
    LayeredPreset{"llama-3.3-nemotron-super-49b", NemotronSuper49b},
    LayeredPreset{"llama-3.1-nemotron-ultra-253b", NemotronUltra253b},
};

}  // namespace

std::span<const LayeredPreset> DensePresets() { return kDensePresets; }

}  // namespace twin
