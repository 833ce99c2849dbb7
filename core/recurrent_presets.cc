// Source: config.json of the named repositories on huggingface.co, and the classes of transformers
// 5.24 for what they leave out; tests/unit/core/layered_presets_test.cc has the published totals.
#include <array>
#include <string>

#include "core/layered_presets.h"
#include "core/preset_layers.h"

namespace twin {
namespace {

using namespace presets;

// ---- Recurrent layers beside attention ----

// `layer`, whose config.json does not say in which format a state is kept.
LayerSpec UnstatedState(LayerSpec layer) {
  layer.recurrent->state_value_bytes = 0;
  return layer;
}

LayerSpec GatedHeads(std::int32_t query_heads, std::int32_t kv_heads) {
  LayerSpec layer = NormedHeads(query_heads, kv_heads, 256);
  layer.output_gate = OutputGate::kFull;
  return layer;
}

ModelSpec QwenHybrid(const Frame& frame, std::string_view pattern, const LayerSpec& recurrent,
                     const LayerSpec& full, const MoeSpec& experts) {
  return WithMtp(Model(frame, pattern,
                       {{"Ge", Mixture(recurrent, GatedShared(experts))},
                        {"Fe", Mixture(full, GatedShared(experts))}}));
}

ModelSpec Qwen3Next() {
  return QwenHybrid({2048, 151936, 262144}, "12(3Ge Fe)", UnstatedState(GatedDelta(16, 32)),
                    GatedHeads(16, 2), Experts(512, 10, 512, 512));
}
ModelSpec Qwen35A17b() {
  return QwenHybrid({4096, 248320, 262144}, "15(3Ge Fe)", GatedDelta(16, 64), GatedHeads(32, 2),
                    Experts(512, 10, 1024, 1024));
}
ModelSpec Qwen35A10b() {
  return QwenHybrid({3072, 248320, 262144}, "12(3Ge Fe)", GatedDelta(16, 64), GatedHeads(32, 2),
                    Experts(256, 8, 1024, 1024));
}
ModelSpec Qwen35A3b() {
  return QwenHybrid({2048, 248320, 262144}, "10(3Ge Fe)", GatedDelta(16, 32), GatedHeads(16, 2),
                    Experts(256, 8, 512, 512));
}
ModelSpec Qwen35Dense27b() {
  return WithMtp(
      Model({5120, 248320, 262144}, "16(3Gd Fd)",
            {{"Gd", Dense(GatedDelta(16, 48), 17408)}, {"Fd", Dense(GatedHeads(24, 4), 17408)}}));
}

// `letters` as in hybrid_override_pattern: M Mamba-2, * attention, E mixture, - dense MLP.
ModelSpec Nemotron(const Frame& frame, std::string_view letters, const LayerSpec& mamba,
                   const LayerSpec& heads, const LayerSpec& mlp) {
  std::string pattern;
  for (const char letter : letters) {
    pattern += letter;
    pattern += ' ';
  }
  return Model(
      frame, pattern,
      {{"M", Alone(mamba)}, {"*", Alone(heads)}, {"E", SquaredRelu(mlp)}, {"-", SquaredRelu(mlp)}});
}

ModelSpec NemotronNano3() {
  return Nemotron({2688, 131072, 262144}, "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
                  Mamba2(64, 64, 8, 128), Heads(32, 2, 128),
                  Mixture({}, Corrected(Experts(128, 6, 1856, 3712))));
}

ModelSpec NemotronSuper3() {
  return Nemotron(
      {4096, 131072, 262144},
      "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EM"
      "EMEMEME",
      Mamba2(128, 64, 8, 128), Heads(32, 2, 128),
      Mixture({}, InLatent(Corrected(Experts(512, 22, 2688, 5376)), 1024)));
}

ModelSpec NemotronUltra3() {
  return Nemotron(
      {8192, 131072, 262144},
      "MEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM"
      "*EMEMEM*EMEMEMEM*EMEMEMEME",
      Mamba2(256, 64, 8, 128), Heads(64, 2, 128),
      Mixture({}, InLatent(Corrected(Experts(512, 22, 5120, 10240)), 2048)));
}

ModelSpec NemotronH56b() {
  return Model({8192, 131072, 8192}, "10(M d M d M d M F d M d) 4(M d)",
               {{"M", Alone(Mamba2(256, 64, 8, 256))},
                {"F", Alone(Heads(64, 8, 128))},
                {"d", SquaredRelu(Dense({}, 32768))}});
}

ModelSpec NemotronNano9bV2() {
  return Nemotron({4480, 131072, 131072},
                  "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-",
                  Mamba2(128, 80, 8, 128), Heads(40, 8, 128), Dense({}, 15680));
}

ModelSpec NemotronNano12bV2() {
  return Nemotron({5120, 131072, 131072},
                  "M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M-",
                  Mamba2(128, 80, 8, 128), Heads(40, 8, 128), Dense({}, 20480));
}

ModelSpec GraniteHSmall() {
  const MoeSpec experts = Experts(72, 10, 768, 1536);
  return Model({4096, 100352, 131072, true}, "4(5Me Fe 4Me)",
               {{"Me", Mixture(UnstatedState(Mamba2(128, 64, 1, 128)), experts)},
                {"Fe", Mixture(Heads(32, 8, 128), experts)}});
}

ModelSpec MiniMaxText01() {
  const LayerSpec lightning = Recurrent({.kind = RecurrentKind::kLightning,
                                         .key_heads = 64,
                                         .value_heads = 64,
                                         .key_dim = 128,
                                         .value_dim = 128,
                                         .convolution = 0,
                                         .state_value_bytes = 0});
  const MoeSpec experts = Experts(32, 2, 9216);
  return Model({6144, 200064, 10240000}, "10(7Ne Fe)",
               {{"Ne", Mixture(lightning, experts)}, {"Fe", Mixture(Heads(64, 8, 128), experts)}});
}

constexpr std::array kRecurrentPresets = {
    LayeredPreset{"qwen3-next-80b-a3b", Qwen3Next},
    LayeredPreset{"qwen3.5-397b-a17b", Qwen35A17b},
    LayeredPreset{"qwen3.5-122b-a10b", Qwen35A10b},
    LayeredPreset{"qwen3.5-35b-a3b", Qwen35A3b},
    LayeredPreset{"qwen3.5-27b", Qwen35Dense27b},
    LayeredPreset{"nemotron-3-nano-30b-a3b", NemotronNano3},
    LayeredPreset{"nemotron-3-super-120b-a12b", NemotronSuper3},
    LayeredPreset{"nemotron-3-ultra-550b-a55b", NemotronUltra3},
    LayeredPreset{"nemotron-h-56b", NemotronH56b},
    LayeredPreset{"nemotron-nano-9b-v2", NemotronNano9bV2},
    LayeredPreset{"nemotron-nano-12b-v2", NemotronNano12bV2},
    LayeredPreset{"granite-4.0-h-small", GraniteHSmall},
    LayeredPreset{"minimax-text-01", MiniMaxText01},
};

}  // namespace

std::span<const LayeredPreset> RecurrentPresets() { return kRecurrentPresets; }

}  // namespace twin
