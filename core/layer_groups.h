// The layers of a model, whether ModelSpec lists them in `groups` or they have its own LayerSpec.
// Code outside core asks these functions, never `groups` or `windowed_layers`.
#pragma once

#include <cstdint>
#include <vector>

#include "core/model_spec.h"

namespace twin {

// Whether the model lists its layers. Otherwise all layers have its own LayerSpec, except that some
// may lack the window; their places are unknown, and one table of blocks holds all of them.
bool ListsLayers(const ModelSpec& model);

// Share of the layers of a kind of StageLayerKinds() that have the kind's window; the others see
// all keys. 1 if the model lists its layers.
double WindowedShare(const ModelSpec& model);

// All layers in order, equal neighbours together. Layers that are not listed start with those that
// have the window.
std::vector<LayerGroup> OrderedLayers(const ModelSpec& model);
// Lists the layers of OrderedLayers() one by one.
std::vector<LayerSpec> LayerList(const ModelSpec& model);

// Gives the window to `layers` of the model's layers, which it does not list.
// REQUIRES: 0 <= layers <= model.layers.
void SetWindow(std::int32_t window, std::int32_t layers, ModelSpec& model);

// Makes the layers of `model` those of the list, as SetLayers() does; equal neighbours become one
// group. REQUIRES: the list is not empty.
void SetLayerList(const std::vector<LayerSpec>& layers, ModelSpec& model);

// Makes `model` list these layers, also if they are all equal. REQUIRES: groups is not empty.
void ListLayers(std::vector<LayerGroup> groups, ModelSpec& model);

}  // namespace twin
