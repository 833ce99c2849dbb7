// Source: config.json of the named repositories on huggingface.co, and the classes of transformers
// 5.24 for what they leave out; tests/unit/core/layered_presets_test.cc has the published totals.
#include <array>

#include "core/layered_presets.h"
#include "core/preset_layers.h"

namespace twin {
namespace {

using namespace presets;

constexpr LatentSpec kDeepSeekLatent{
    .query_rank = 1536, .kv_rank = 512, .nope_dim = 128, .rope_dim = 64, .value_dim = 128};
constexpr LatentSpec kDeepSeekLiteLatent{
    .kv_rank = 512, .nope_dim = 128, .rope_dim = 64, .value_dim = 128};
constexpr LatentSpec kGlmLatent{
    .query_rank = 2048, .kv_rank = 512, .nope_dim = 192, .rope_dim = 64, .value_dim = 256};

// ---- Latent attention ----

ModelSpec DeepSeekV2Lite() {
  const LayerSpec attention = Latent(16, kDeepSeekLiteLatent);
  return Model(
      {2048, 102400, 163840}, "d 26e",
      {{"d", Dense(attention, 10944)}, {"e", Mixture(attention, Experts(64, 6, 1408, 2816))}});
}

ModelSpec Moonlight() {
  const LayerSpec attention = Latent(16, kDeepSeekLiteLatent);
  return Model({2048, 163840, 8192}, "d 26e",
               {{"d", Dense(attention, 11264)},
                {"e", Mixture(attention, Corrected(Experts(64, 6, 1408, 2816)))}});
}

ModelSpec Glm47Flash() {
  const LayerSpec attention = Latent(
      20, {.query_rank = 768, .kv_rank = 512, .nope_dim = 192, .rope_dim = 64, .value_dim = 256});
  return WithMtp(Model({2048, 154880, 202752}, "d 46e",
                       {{"d", Dense(attention, 10240)},
                        {"e", Mixture(attention, Corrected(Experts(64, 4, 1536, 1536)))}}));
}

ModelSpec MistralSmall4() {
  const LayerSpec attention = Latent(
      32, {.query_rank = 1024, .kv_rank = 256, .nope_dim = 64, .rope_dim = 64, .value_dim = 128});
  return Model({4096, 131072, 1048576}, "36e",
               {{"e", Mixture(attention, Experts(128, 4, 2048, 2048))}});
}

ModelSpec DeepSeekV2() {
  const LayerSpec attention = Latent(128, kDeepSeekLatent);
  return Model(
      {5120, 102400, 163840}, "d 59e",
      {{"d", Dense(attention, 12288)}, {"e", Mixture(attention, Experts(160, 6, 1536, 3072))}});
}

ModelSpec DeepSeekV3() {
  const LayerSpec attention = Latent(128, kDeepSeekLatent);
  ModelSpec model = Model({7168, 129280, 163840}, "3d 58e",
                          {{"d", Dense(attention, 18432)},
                           {"e", Mixture(attention, Corrected(Experts(256, 8, 2048, 2048)))}});
  model.weight_dtype = DType::kFp8Block;
  return WithMtp(model);
}

ModelSpec DeepSeekV32() {
  const LayerSpec attention = Latent(128, WithIndex(kDeepSeekLatent, 64));
  ModelSpec model = Model({7168, 129280, 163840}, "3d 58e",
                          {{"d", Dense(attention, 18432)},
                           {"e", Mixture(attention, Corrected(Experts(256, 8, 2048, 2048)))}});
  model.weight_dtype = DType::kFp8Block;
  return WithMtp(model);
}

ModelSpec KimiK2() {
  const LayerSpec attention = Latent(64, kDeepSeekLatent);
  ModelSpec model = Model({7168, 163840, 131072}, "d 60e",
                          {{"d", Dense(attention, 18432)},
                           {"e", Mixture(attention, Corrected(Experts(384, 8, 2048, 2048)))}});
  model.weight_dtype = DType::kFp8Block;
  return model;
}

ModelSpec KimiK25() {
  ModelSpec model = KimiK2();
  model.max_position = 262144;
  model.weight_dtype = DType::kBf16;
  model.formats.experts = DType::kInt4Group32;
  return model;
}

ModelSpec Glm5() {
  const LayerSpec attention = Latent(64, WithIndex(kGlmLatent, 32));
  return WithMtp(Model({6144, 154880, 202752}, "3d 75e",
                       {{"d", Dense(attention, 12288)},
                        {"e", Mixture(attention, Corrected(Experts(256, 8, 2048, 2048)))}}));
}

ModelSpec Glm52() {
  const LatentSpec index = WithIndex(kGlmLatent, 32);
  const LayerSpec owner = Latent(64, index);
  const MoeSpec experts = Corrected(Experts(256, 8, 2048, 2048));
  return WithMtp(Model({6144, 154880, 1048576}, "3d 18(3r e) 3r",
                       {{"d", Dense(owner, 12288)},
                        {"e", Mixture(owner, experts)},
                        {"r", Mixture(Latent(64, ReusingIndex(index)), experts)}}),
                 Mixture(owner, experts));
}

// A published layer is two sublayers and a mixture beside the second one.
ModelSpec LongCatFlash() {
  MoeSpec experts = Corrected(Experts(512, 12, 2048));
  experts.identity_experts = 256;
  return Model({6144, 131072, 131072}, "28(2d e)",
               {{"d", Dense(Latent(64, kDeepSeekLatent), 12288)},
                {"e", WithNorms(Mixture({}, experts), 0)}});
}

ModelSpec KimiLinear() {
  const MoeSpec experts = Corrected(Experts(256, 8, 1024, 1024));
  return Model({2304, 163840, 1048576}, "Kd 6(2Ke Le Ke) Ke Le",
               {{"Kd", Dense(KimiDelta(32), 9216)},
                {"Ke", Mixture(KimiDelta(32), experts)},
                {"Le", Mixture(Latent(32, kDeepSeekLiteLatent), experts)}});
}

ModelSpec Ling3Flash() {
  const MoeSpec experts = Corrected(Experts(512, 8, 768, 768));
  LayerSpec delta = KimiDelta(32, true);
  delta.recurrent->full_rank_decay = true;
  LayerSpec attention = Latent(32, kDeepSeekLiteLatent);
  attention.output_gate = OutputGate::kHead;
  return Model({2560, 157184, 262144}, "2Kd 6(3Ke Le 2Ke) 3Ke Le",
               {{"Kd", Dense(delta, 6144)},
                {"Ke", Mixture(delta, experts)},
                {"Le", Mixture(attention, experts)}});
}

// Without its residual over blocks of layers.
ModelSpec KimiK3() {
  LatentSpec latent = kDeepSeekLatent;
  LayerSpec attention = Latent(96, latent);
  attention.output_gate = OutputGate::kFull;
  const LayerSpec delta = KimiDelta(96, true);
  const MoeSpec experts = InLatent(Corrected(Experts(896, 16, 3072, 6144)), 3584);
  return Model({7168, 163840, 1048576}, "Kd 22(2Ke Le Ke) 2Ke 2Le",
               {{"Kd", Dense(delta, 33792)},
                {"Ke", Mixture(delta, experts)},
                {"Le", Mixture(attention, experts)}});
}

constexpr std::array kLatentPresets = {
    LayeredPreset{"deepseek-v2-lite", DeepSeekV2Lite},
    LayeredPreset{"moonlight-16b-a3b", Moonlight},
    LayeredPreset{"glm-4.7-flash", Glm47Flash},
    LayeredPreset{"mistral-small-4-119b", MistralSmall4},
    LayeredPreset{"deepseek-v2", DeepSeekV2},
    LayeredPreset{"deepseek-v3", DeepSeekV3},
    LayeredPreset{"deepseek-v3.2", DeepSeekV32},
    LayeredPreset{"kimi-k2", KimiK2},
    LayeredPreset{"kimi-k2.5", KimiK25},
    LayeredPreset{"glm-5", Glm5},
    LayeredPreset{"glm-5.2", Glm52},
    LayeredPreset{"longcat-flash-chat", LongCatFlash},
    LayeredPreset{"kimi-linear-48b-a3b", KimiLinear},
    LayeredPreset{"ling-3.0-flash", Ling3Flash},
    LayeredPreset{"kimi-k3", KimiK3},
};

}  // namespace

std::span<const LayeredPreset> LatentPresets() { return kLatentPresets; }

}  // namespace twin
