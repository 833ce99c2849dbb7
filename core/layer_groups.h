// Lists of layers as runs of equal ones.
#pragma once

#include <vector>

#include "core/model_spec.h"

namespace twin {

// Makes the layers of `model` those of the list, as SetLayers() does; equal neighbours become one
// group. REQUIRES: the list is not empty.
void SetLayerList(const std::vector<LayerSpec>& layers, ModelSpec& model);

}  // namespace twin
