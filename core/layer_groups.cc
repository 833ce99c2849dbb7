#include "core/layer_groups.h"

#include <utility>

#include "core/check.h"

namespace twin {

bool ListsLayers(const ModelSpec& model) { return !model.groups.empty(); }

double WindowedShare(const ModelSpec& model) {
  return ListsLayers(model) ? 1 : static_cast<double>(model.windowed_layers) / model.layers;
}

std::vector<LayerGroup> OrderedLayers(const ModelSpec& model) {
  if (ListsLayers(model)) return model.groups;
  if (model.sliding_window == 0 || model.windowed_layers == model.layers) {
    return {{model.layers, model}};
  }
  LayerSpec all_keys = model;
  all_keys.sliding_window = 0;
  if (model.windowed_layers == 0) return {{model.layers, all_keys}};
  return {{model.windowed_layers, model}, {model.layers - model.windowed_layers, all_keys}};
}

std::vector<LayerSpec> LayerList(const ModelSpec& model) {
  std::vector<LayerSpec> layers;
  for (const LayerGroup& group : OrderedLayers(model)) {
    layers.insert(layers.end(), static_cast<std::size_t>(group.layers), group.layer);
  }
  return layers;
}

void SetWindow(std::int32_t window, std::int32_t layers, ModelSpec& model) {
  CHECK(!ListsLayers(model) && layers >= 0 && layers <= model.layers);
  model.sliding_window = window;
  model.windowed_layers = layers;
}

void SetLayerList(const std::vector<LayerSpec>& layers, ModelSpec& model) {
  std::vector<LayerGroup> groups;
  for (const LayerSpec& layer : layers) {
    if (groups.empty() || groups.back().layer != layer) groups.push_back({0, layer});
    ++groups.back().layers;
  }
  SetLayers(groups, model);
}

void ListLayers(std::vector<LayerGroup> groups, ModelSpec& model) {
  CHECK(!groups.empty());
  SetLayers(groups, model);
  model.windowed_layers = 0;
  model.groups = std::move(groups);
}

}  // namespace twin
