// The products of layers, derived by hand from config.json files.
#include "core/layer_work.h"

#include <gtest/gtest.h>

#include "config/models/model_names.h"

namespace twin {
namespace {

using enum LayerPart;

// 32 query heads, 8 KV heads of 128 and an MLP of 14,336 on two ranks: 2,048 + 2 x 512 outputs.
TEST(LayerWorkTest, ADenseLayerHasFourProducts) {
  const ModelSpec model = ModelPreset("llama-3-8b");
  const std::vector<LayerProduct> expected = {{kAttention, ProductRole::kInput, 4096, 3072},
                                              {kAttention, ProductRole::kOutput, 2048, 4096},
                                              {kDense, ProductRole::kGateUp, 4096, 14336},
                                              {kDense, ProductRole::kDown, 7168, 4096}};
  EXPECT_EQ(LayerProducts(model, model, {.tensor = 2}), expected);
}

// gemma-4's layers over all tokens: 16 query heads and 2 KV heads of 512 whose keys are values,
// too.
TEST(LayerWorkTest, KeysThatAreValuesAreProjectedOnce) {
  const ModelSpec model = ModelPreset("gemma-4-26b-a4b");
  const LayerSpec& full = model.groups.at(1).layer;
  ASSERT_TRUE(full.keys_are_values);
  const LayerProduct projection = LayerProducts(model, full, {}).front();
  EXPECT_EQ(projection, (LayerProduct{kAttention, ProductRole::kInput, 2816, (16 + 2) * 512}));
}

// Step 3.7: one number a query head, beside queries of 64 x 128, keys and values of 8 x 128 each.
TEST(LayerWorkTest, GatesByHeadsAreAProductOfTheirOwn) {
  const ModelSpec model = ModelPreset("step-3.7-flash");
  const std::vector<LayerProduct> products = LayerProducts(model, model.groups.front().layer, {});
  EXPECT_EQ(products[0], (LayerProduct{kAttention, ProductRole::kInput, 4096, 10240}));
  EXPECT_EQ(products[1], (LayerProduct{kAttention, ProductRole::kGate, 4096, 64}));
  EXPECT_EQ(products[2], (LayerProduct{kAttention, ProductRole::kOutput, 8192, 4096}));
}

// DeepSeek-V3 on 8 ranks: ranks of 1,536 and 512, keys of 128 + 64 numbers and values of 128 for 16
// heads; the router is whole on every rank, experts are divided by their width of 2,048.
TEST(LayerWorkTest, LatentAttentionAndExperts) {
  const ModelSpec model = ModelPreset("deepseek-v3");
  const std::vector<LayerProduct> expected = {
      {kAttention, ProductRole::kInput, 7168, 1536 + 512 + 64},
      {kAttention, ProductRole::kInput, 1536, 16 * 192},
      {kAttention, ProductRole::kLatentHeads, 512, 16 * 256},
      {kAttention, ProductRole::kOutput, 16 * 128, 7168},
      {kRouter, ProductRole::kRouter, 7168, 256},
      {kShared, ProductRole::kGateUp, 7168, 512},
      {kShared, ProductRole::kDown, 256, 7168},
      {kExperts, ProductRole::kGateUp, 7168, 512},
      {kExperts, ProductRole::kDown, 256, 7168}};
  EXPECT_EQ(LayerProducts(model, model.groups.back().layer, {.tensor = 8}), expected);
}

// Nemotron 3's experts compute relu(x)^2 between two projections, in a width of 1,856.
TEST(LayerWorkTest, ExpertsWithoutGateHaveTwoProjections) {
  const ModelSpec model = ModelPreset("nemotron-3-nano-30b-a3b");
  for (const LayerGroup& group : model.groups) {
    if (group.layer.moe.experts == 0) continue;
    EXPECT_EQ(CountLayer(model, group.layer, {}, 1).experts, 2 * 2688 * 1856);
  }
}

// A product and a sum for the score and for the value: 32 heads of 128 in Llama 3. DeepSeek-V3's
// prompts have keys of 192 and values of 128 for each of 128 heads; its decodes read vectors of 512
// + 64, of which 512 are the value.
TEST(LayerWorkTest, OperationsOfAQueryAndAKey) {
  const PairFlops llama = PairFlopsOf(ModelPreset("llama-3-8b"));
  EXPECT_EQ(llama.prompts, 4 * 32 * 128);
  EXPECT_EQ(llama.decodes, 4 * 32 * 128);
  const PairFlops deepseek = PairFlopsOf(ModelPreset("deepseek-v3").groups.front().layer);
  EXPECT_EQ(deepseek.prompts, 2 * 128 * (192 + 128));
  EXPECT_EQ(deepseek.decodes, 2 * 128 * (2 * 512 + 64));
}

}  // namespace
}  // namespace twin
