// Lists of layers as runs of equal ones.
#pragma once

#include <vector>

#include "core/model_spec.h"

namespace twin {

// All layers in order, equal neighbours together. Of a model without groups, those that have its
// window come first.
std::vector<LayerGroup> OrderedLayers(const ModelSpec& model);
// Lists the layers of OrderedLayers() one by one.
std::vector<LayerSpec> LayerList(const ModelSpec& model);

// Makes the layers of `model` those of the list, as SetLayers() does; equal neighbours become one
// group. REQUIRES: the list is not empty.
void SetLayerList(const std::vector<LayerSpec>& layers, ModelSpec& model);

}  // namespace twin
