// Shapes of public models of 2024 to 2026, most of whose layers differ or have other than plain
// attention.
#pragma once

#include <span>
#include <string_view>

#include "core/model_spec.h"

namespace twin {

// A public model and the function that makes its shape.
struct LayeredPreset {
  std::string_view name;
  ModelSpec (*make)();
};
std::span<const LayeredPreset> LatentPresets();     // latent attention in some layers
std::span<const LayeredPreset> MixturePresets();    // mixtures of experts with plain attention
std::span<const LayeredPreset> RecurrentPresets();  // recurrent layers beside plain attention
std::span<const LayeredPreset> DensePresets();      // dense MLPs

}  // namespace twin
