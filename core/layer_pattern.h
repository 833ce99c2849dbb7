// Lists of layers in a short notation.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/layer_spec.h"

namespace twin {

struct LayerSymbol {
  std::string_view symbol;  // begins with no digit; no space, no parenthesis
  LayerSpec layer;
};

// The layers of a pattern as runs of equal layers: "12(3G F) 2G" is twelve times three layers G and
// a layer F, and then two layers G. REQUIRES: the pattern is well formed, and `symbols` has all of
// its symbols.
std::vector<LayerGroup> ExpandLayerPattern(std::string_view pattern,
                                           std::span<const LayerSymbol> symbols);

// Appends layers; equal neighbours become one group.
void AppendLayers(const LayerGroup& group, std::vector<LayerGroup>& groups);

}  // namespace twin
