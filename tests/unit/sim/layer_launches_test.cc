#include "sim/devices/layer_launches.h"

#include <gtest/gtest.h>

#include "config/models/model_names.h"

namespace twin::sim {
namespace {

// Two norms, the products of queries, keys and values and of the output, rotary embedding, cache
// write, attention, two products and an activation.
TEST(LayerLaunchesTest, ADenseLayerIsTheUnit) {
  const ModelSpec model = ModelPreset("llama-3-8b");
  EXPECT_EQ(LayerLaunches(model, model), kDenseLayerLaunches);
}

TEST(LayerLaunchesTest, FormatsWithScalesOfTokensQuantiseEachProductsInput) {
  ModelSpec model = ModelPreset("llama-3-8b");
  model.weight_dtype = DType::kFp8;
  EXPECT_EQ(LayerLaunches(model, model), 10);
  model.weight_dtype = DType::kFp8Block;
  EXPECT_EQ(LayerLaunches(model, model), 10 + 4);
  model.formats.attention = DType::kBf16;
  EXPECT_EQ(LayerLaunches(model, model), 10 + 2);
}

// Attention: 4 products and 6 kernels. Experts: router, 5 of routing, 2 products; shared experts: 2
// products, activation, addition. In blocks of fp8, all products but the router's have a
// quantisation.
TEST(LayerLaunchesTest, LatentAttentionAndExpertsAreMoreThanTwiceADenseLayer) {
  ModelSpec model = ModelPreset("deepseek-v3");
  model.weight_dtype = DType::kBf16;
  const LayerSpec& dense = model.groups.front().layer;
  const LayerSpec& mixture = model.groups.back().layer;
  EXPECT_EQ(LayerLaunches(model, dense), 2 + 10 + 3);
  EXPECT_EQ(LayerLaunches(model, mixture), 2 + 10 + 8 + 4);
  model.weight_dtype = DType::kFp8Block;
  EXPECT_EQ(LayerLaunches(model, mixture), 24 + 4 + 2 + 2);
}

// Factorised queries have a product and a norm more than a dense layer's 10 kernels; a matrix in
// place of attention is one product behind a norm; a layer that returns its input launches nothing.
TEST(LayerLaunchesTest, FactorsMatricesAndEmptyLayersCountTheirProducts) {
  const ModelSpec step = ModelPreset("step-3");
  EXPECT_EQ(LayerLaunches(step, step.groups.front().layer), 10 + 2);
  LayerSpec layer;
  layer.norms_per_layer = 0;
  EXPECT_EQ(LayerLaunches(step, layer), 0);
  layer.norms_per_layer = layer.linears = 1;
  EXPECT_EQ(LayerLaunches(step, layer), 2);
}

// Kimi's gate and decay are two products each, Ling's one each.
TEST(LayerLaunchesTest, GatesOfFullRankAreOneProduct) {
  const ModelSpec kimi = ModelPreset("kimi-linear-48b-a3b");
  const ModelSpec ling = ModelPreset("ling-3.0-flash");
  EXPECT_EQ(LayerLaunches(kimi, kimi.groups.front().layer) -
                LayerLaunches(ling, ling.groups.front().layer),
            2);
}

// A gate multiplies the attention's output. A full one of plain heads is made with the queries; a
// gate by heads and a full one of latent attention are products of their own.
TEST(LayerLaunchesTest, GatesOfTheOutputAreAMultiplicationAndMayBeAProduct) {
  const ModelSpec llama = ModelPreset("llama-3-8b");
  const ModelSpec deepseek = ModelPreset("deepseek-v2-lite");
  const auto added = [](const ModelSpec& model, LayerSpec layer, OutputGate gate) {
    const double without = LayerLaunches(model, layer);
    layer.output_gate = gate;
    return LayerLaunches(model, layer) - without;
  };
  EXPECT_EQ(added(llama, llama, OutputGate::kFull), 1);
  EXPECT_EQ(added(llama, llama, OutputGate::kHead), 2);
  EXPECT_EQ(added(deepseek, deepseek.groups.front().layer, OutputGate::kFull), 2);
  EXPECT_EQ(added(deepseek, deepseek.groups.front().layer, OutputGate::kHead), 2);
}

}  // namespace
}  // namespace twin::sim
