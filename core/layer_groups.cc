#include "core/layer_groups.h"

namespace twin {

void SetLayerList(const std::vector<LayerSpec>& layers, ModelSpec& model) {
  std::vector<LayerGroup> groups;
  for (const LayerSpec& layer : layers) {
    if (groups.empty() || groups.back().layer != layer) groups.push_back({0, layer});
    ++groups.back().layers;
  }
  SetLayers(groups, model);
}

}  // namespace twin
