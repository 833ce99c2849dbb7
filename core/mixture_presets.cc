// Source: config.json of the named repositories on huggingface.co, and the classes of transformers
// 5.24 for what they leave out; tests/unit/core/layered_presets_test.cc has the published totals.
#include <array>

#include "core/layered_presets.h"
#include "core/preset_layers.h"

namespace twin {
namespace {

using namespace presets;

// ---- Grouped queries, windows and chunks with mixtures ----

ModelSpec Glm45() {
  LayerSpec attention = NormedHeads(96, 8, 128);
  attention.qkv_bias = true;
  return WithMtp(Model({5120, 151552, 131072}, "3d 89e",
                       {{"d", Dense(attention, 12288)},
                        {"e", Mixture(attention, Corrected(Experts(160, 8, 1536, 1536)))}}));
}

ModelSpec Glm45Air() {
  LayerSpec attention = Heads(96, 8, 128);
  attention.qkv_bias = true;
  return WithMtp(Model({4096, 151552, 131072}, "d 45e",
                       {{"d", Dense(attention, 10944)},
                        {"e", Mixture(attention, Corrected(Experts(128, 8, 1408, 1408)))}}));
}

ModelSpec MiniMaxM2() {
  LayerSpec attention = Heads(48, 8, 128);
  attention.full_qk_norm = true;
  ModelSpec model = Model({3072, 200064, 196608}, "62e",
                          {{"e", Mixture(attention, Corrected(Experts(256, 8, 1536)))}});
  model.weight_dtype = DType::kFp8Block;
  return model;
}

ModelSpec MiniMaxM3() {
  const LayerSpec full = NormedHeads(64, 4, 128);
  LayerSpec sparse = full;
  sparse.block_index = BlockIndexSpec{.heads = 4, .dim = 128, .block = 128, .blocks = 16};
  return Model(
      {6144, 200064, 1048576}, "3d 57e",
      {{"d", Dense(full, 12288)}, {"e", Mixture(sparse, Corrected(Experts(128, 4, 3072, 3072)))}});
}

ModelSpec SolarOpen() {
  return Model({4096, 196608, 131072}, "48e",
               {{"e", Mixture(Heads(64, 8, 128), Corrected(Experts(128, 8, 1280, 1280)))}});
}

ModelSpec HunyuanA13b() {
  return Model({4096, 128167, 262144, true}, "32e",
               {{"e", Mixture(NormedHeads(32, 8, 128), Experts(64, 8, 3072, 3072))}});
}

ModelSpec DotsLlm1() {
  const LayerSpec attention = NormedHeads(32, 32, 128);
  return Model({4096, 152064, 32768}, "d 61e",
               {{"d", Dense(attention, 10944)},
                {"e", Mixture(attention, Corrected(Experts(128, 6, 1408, 2816)))}});
}

ModelSpec GptOss(std::string_view pattern, std::int32_t experts) {
  LayerSpec full = Heads(64, 8, 64);
  full.qkv_bias = full.output_bias = full.sinks = true;
  MoeSpec moe = Experts(experts, 4, 2880);
  moe.router_bias = moe.expert_bias = true;
  ModelSpec model = Model({2880, 201088, 131072}, pattern,
                          {{"We", Mixture(Windowed(full, 128), moe)}, {"Fe", Mixture(full, moe)}});
  model.formats.experts = DType::kMxfp4;
  return model;
}
ModelSpec GptOss20b() { return GptOss("12(We Fe)", 32); }
ModelSpec GptOss120b() { return GptOss("18(We Fe)", 128); }

ModelSpec Llama4Scout() {
  const LayerSpec full = Heads(40, 8, 128);
  const MoeSpec experts = Experts(16, 1, 8192, 8192);
  return Model({5120, 202048, 10485760}, "12(3Ce Fe)",
               {{"Ce", Mixture(Chunked(full, 8192), experts)}, {"Fe", Mixture(full, experts)}});
}

ModelSpec Llama4Maverick() {
  const LayerSpec full = Heads(40, 8, 128);
  const LayerSpec chunked = Chunked(full, 8192);
  const MoeSpec experts = Experts(128, 1, 8192, 8192);
  return Model({5120, 202048, 1048576}, "12(Cd Ce Cd Fe)",
               {{"Cd", Dense(chunked, 16384)},
                {"Ce", Mixture(chunked, experts)},
                {"Fe", Mixture(full, experts)}});
}

ModelSpec MimoV2Flash() {
  LayerSpec full = Heads(64, 4, 192);
  full.value_dim = 128;
  LayerSpec near = Windowed(full, 128);
  near.kv_heads = 8;
  near.sinks = true;
  const MoeSpec experts = Corrected(Experts(256, 8, 2048));
  ModelSpec model = Model(
      {4096, 152576, 262144}, "Fd 7(4We Fe We) 4We Fe",
      {{"Fd", Dense(full, 16384)}, {"We", Mixture(near, experts)}, {"Fe", Mixture(full, experts)}});
  model.weight_dtype = DType::kFp8Block;
  return model;
}

ModelSpec Step37Flash() {
  LayerSpec full = NormedHeads(64, 8, 128);
  full.output_gate = OutputGate::kHead;
  LayerSpec near = Windowed(full, 512);
  near.query_heads = 96;
  const MoeSpec experts = Corrected(Experts(288, 8, 1280, 1280));
  return Model({4096, 128896, 65536}, "Fd 2Wd 10(We Fe 2We) We Fe",
               {{"Fd", Dense(full, 11264)},
                {"Wd", Dense(near, 11264)},
                {"We", Mixture(near, experts)},
                {"Fe", Mixture(full, experts)}});
}

ModelSpec Gemma4A4b() {
  LayerSpec near = WithNorms(Windowed(NormedHeads(16, 8, 256), 1024), 7);
  LayerSpec full = WithNorms(NormedHeads(16, 2, 512), 7);
  full.keys_are_values = true;
  near.scales_per_layer = full.scales_per_layer = 2944;
  MoeSpec experts = Experts(128, 8, 704);
  experts.dense_intermediate = 2112;
  return Model({2816, 262144, 262144, true}, "5(5We Fe)",
               {{"We", Mixture(near, experts)}, {"Fe", Mixture(full, experts)}});
}

// Multi-matrix factorised attention: one head of keys, queries of rank 2048.
ModelSpec Step3() {
  LayerSpec heads = Heads(64, 1, 256);
  heads.query_rank = 2048;
  return Model({7168, 128815, 65536}, "4d 56e d",
               {{"d", Dense(heads, 18432)}, {"e", Mixture(heads, Experts(48, 3, 5120, 5120))}});
}

ModelSpec Ernie21b() {
  const LayerSpec heads = Heads(20, 4, 128);
  return Model({2560, 103424, 131072, true}, "d 27e",
               {{"d", Dense(heads, 12288)},
                {"e", Mixture(heads, Corrected(Experts(64, 6, 1536, 2 * 1536)))}});
}
ModelSpec Ernie300b() {
  const LayerSpec heads = Heads(64, 8, 128);
  return Model(
      {8192, 103424, 131072, true}, "3d 51e",
      {{"d", Dense(heads, 28672)}, {"e", Mixture(heads, Corrected(Experts(64, 8, 3584)))}});
}

// ---- Ling ----

ModelSpec LingLite15() {
  return Model({2048, 126464, 32768}, "28e",
               {{"e", Mixture(Heads(16, 4, 128), Experts(64, 6, 1408, 2 * 1408))}});
}
ModelSpec LingPlus() {
  return Model({5376, 126464, 16384}, "88e",
               {{"e", Mixture(Heads(42, 6, 128), Experts(64, 4, 3072, 3072))}});
}
// Experts, their choice and the norms of heads are equal in all sizes.
ModelSpec Ling2(const Frame& frame, std::string_view pattern, const LayerSpec& heads,
                std::int32_t dense, std::int32_t width) {
  return Model(frame, pattern,
               {{"d", Dense(heads, dense)},
                {"e", Mixture(heads, Corrected(Experts(256, 8, width, width)))}});
}
ModelSpec LingMini2() {
  return Ling2({2048, 157184, 32768}, "d 19e", NormedHeads(16, 4, 128), 5120, 512);
}
ModelSpec LingFlash2() {
  return Ling2({4096, 157184, 32768}, "d 31e", NormedHeads(32, 4, 128), 9216, 1024);
}
ModelSpec Ling1t() {
  return Ling2({8192, 157184, 32768}, "4d 76e", NormedHeads(64, 8, 128), 18432, 2048);
}

constexpr std::array kMixturePresets = {
    LayeredPreset{"glm-4.5", Glm45},
    LayeredPreset{"glm-4.5-air", Glm45Air},
    LayeredPreset{"minimax-m2", MiniMaxM2},
    LayeredPreset{"minimax-m2.5", MiniMaxM2},
    LayeredPreset{"minimax-m3", MiniMaxM3},
    LayeredPreset{"solar-open-100b", SolarOpen},
    LayeredPreset{"hunyuan-a13b", HunyuanA13b},
    LayeredPreset{"dots.llm1", DotsLlm1},
    LayeredPreset{"gpt-oss-20b", GptOss20b},
    LayeredPreset{"gpt-oss-120b", GptOss120b},
    LayeredPreset{"llama-4-scout", Llama4Scout},
    LayeredPreset{"llama-4-maverick", Llama4Maverick},
    LayeredPreset{"mimo-v2-flash", MimoV2Flash},
    LayeredPreset{"step-3.7-flash", Step37Flash},
    LayeredPreset{"gemma-4-26b-a4b", Gemma4A4b},
    LayeredPreset{"step-3", Step3},
    LayeredPreset{"ernie-4.5-21b-a3b", Ernie21b},
    LayeredPreset{"ernie-4.5-300b-a47b", Ernie300b},
    LayeredPreset{"ling-lite-1.5", LingLite15},
    LayeredPreset{"ling-plus", LingPlus},
    LayeredPreset{"ling-mini-2.0", LingMini2},
    LayeredPreset{"ling-flash-2.0", LingFlash2},
    LayeredPreset{"ling-1t", Ling1t},
};

}  // namespace

std::span<const LayeredPreset> MixturePresets() { return kMixturePresets; }

}  // namespace twin
