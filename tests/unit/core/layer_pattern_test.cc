#include "core/layer_pattern.h"

#include <gtest/gtest.h>

#include "core/input_error.h"
#include "core/model_presets.h"
#include "core/model_spec.h"

namespace twin {
namespace {

LayerSpec Heads(std::int32_t window) {
  LayerSpec layer;
  layer.query_heads = layer.kv_heads = 2;
  layer.head_dim = 8;
  layer.sliding_window = window;
  layer.intermediate = 16;
  return layer;
}

const LayerSymbol kSymbols[] = {{"F", Heads(0)}, {"W", Heads(4)}};

// F W W F W W W: the two layers W at the end of the second period and the last one are a run.
TEST(LayerPatternTest, PeriodsRepeatAndEqualNeighboursAreOneGroup) {
  const std::vector<LayerGroup> expected = {
      {1, Heads(0)}, {2, Heads(4)}, {1, Heads(0)}, {3, Heads(4)}};
  EXPECT_EQ(ExpandLayerPattern("2(F 2W) W", kSymbols), expected);
  EXPECT_EQ(ExpandLayerPattern("2(2(F)) F", kSymbols), (std::vector<LayerGroup>{{5, Heads(0)}}));
}

TEST(LayerPatternTest, LayersThatAreAllEqualAreTheModelsOwn) {
  ModelSpec model;
  SetLayers({{3, Heads(4)}}, model);
  EXPECT_TRUE(model.groups.empty());
  EXPECT_EQ(model.layers, 3);
  EXPECT_EQ(model.windowed_layers, 3);
  SetLayers({{1, Heads(0)}, {2, Heads(4)}}, model);
  EXPECT_EQ(model.groups.size(), 2U);
  EXPECT_EQ(model.layers, 3);
  EXPECT_EQ(model.windowed_layers, 0);
}

// Seven layers are four in the first stage and three in the second.
TEST(LayerPatternTest, StagesHaveTheKindsOfTheirLayers) {
  ModelSpec model;
  SetLayers(ExpandLayerPattern("2(F 2W) W", kSymbols), model);
  const Parallelism two{.pipeline = 2};
  ASSERT_EQ(StageLayers(model, two, 0), 4);
  EXPECT_EQ(StageLayerKinds(model, two, 0),
            (std::vector<LayerGroup>{{2, Heads(0)}, {2, Heads(4)}}));
  EXPECT_EQ(StageLayerKinds(model, two, 1), (std::vector<LayerGroup>{{3, Heads(4)}}));
  EXPECT_EQ(StageLayerKinds(model, {}, 0), (std::vector<LayerGroup>{{2, Heads(0)}, {5, Heads(4)}}));
}

}  // namespace
}  // namespace twin
