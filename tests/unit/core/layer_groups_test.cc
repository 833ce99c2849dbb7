#include "core/layer_groups.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

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

// Layers with the windows that are named; 0 = none.
std::vector<LayerSpec> Layers(std::initializer_list<std::int32_t> windows) {
  std::vector<LayerSpec> layers;
  for (const std::int32_t window : windows) layers.push_back(Heads(window));
  return layers;
}

TEST(LayerGroupsTest, EqualNeighboursAreOneGroup) {
  ModelSpec model;
  SetLayerList(Layers({0, 4, 4, 0, 4, 4, 4}), model);
  const std::vector<LayerGroup> expected = {
      {1, Heads(0)}, {2, Heads(4)}, {1, Heads(0)}, {3, Heads(4)}};
  EXPECT_EQ(model.groups, expected);
  EXPECT_EQ(model.layers, 7);
}

TEST(LayerGroupsTest, LayersThatAreAllEqualAreTheModelsOwn) {
  ModelSpec model;
  SetLayers({{3, Heads(4)}}, model);
  EXPECT_FALSE(ListsLayers(model));
  EXPECT_EQ(model.layers, 3);
  EXPECT_EQ(model.windowed_layers, 3);
  SetLayers({{1, Heads(0)}, {2, Heads(4)}}, model);
  EXPECT_EQ(model.groups.size(), 2U);
  EXPECT_EQ(model.layers, 3);
  EXPECT_EQ(model.windowed_layers, 0);
}

TEST(LayerGroupsTest, SomeOfEqualLayersMayHaveTheWindow) {
  ModelSpec model;
  SetLayers({{8, Heads(0)}}, model);
  EXPECT_EQ(OrderedLayers(model), (std::vector<LayerGroup>{{8, Heads(0)}}));
  SetWindow(4, 2, model);
  EXPECT_FALSE(ListsLayers(model));
  EXPECT_EQ(WindowedShare(model), 0.25);
  EXPECT_EQ(OrderedLayers(model), (std::vector<LayerGroup>{{2, Heads(4)}, {6, Heads(0)}}));
  SetWindow(4, 0, model);
  EXPECT_EQ(OrderedLayers(model), (std::vector<LayerGroup>{{8, Heads(0)}}));
}

TEST(LayerGroupsTest, EqualLayersCanBeListed) {
  ModelSpec model;
  SetLayers({{3, Heads(4)}}, model);
  const std::vector<LayerGroup> listed = {{2, Heads(8)}};
  ListLayers(listed, model);
  EXPECT_TRUE(ListsLayers(model));
  EXPECT_EQ(OrderedLayers(model), listed);
  EXPECT_EQ(model.layers, 2);
  EXPECT_EQ(model.sliding_window, 8);
  EXPECT_EQ(WindowedShare(model), 1);
}

// Seven layers are four in the first stage and three in the second.
TEST(LayerGroupsTest, StagesHaveTheKindsOfTheirLayers) {
  ModelSpec model;
  SetLayerList(Layers({0, 4, 4, 0, 4, 4, 4}), model);
  const Parallelism two{.pipeline = 2};
  ASSERT_EQ(StageLayers(model, two, 0), 4);
  EXPECT_EQ(StageLayerKinds(model, two, 0),
            (std::vector<LayerGroup>{{2, Heads(0)}, {2, Heads(4)}}));
  EXPECT_EQ(StageLayerKinds(model, two, 1), (std::vector<LayerGroup>{{3, Heads(4)}}));
  EXPECT_EQ(StageLayerKinds(model, {}, 0), (std::vector<LayerGroup>{{2, Heads(0)}, {5, Heads(4)}}));
}

}  // namespace
}  // namespace twin
