// The shapes of public models, by name.
#pragma once

#include <span>
#include <string_view>

#include "core/model_spec.h"

namespace twin {

// The model called `name`: values as in its public config.json, with 16-bit weights and KV cache.
// Names are lower case with dashes (llama-3-8b); capitals and separators do not count. Throws
// InputError (usage) for an unknown name, with the nearest names, and for a model that a ModelSpec
// cannot describe, with the reason.
ModelSpec ModelPreset(std::string_view name);

// Why a ModelSpec cannot describe a public model that people ask for, by its name with or without
// the organisation; empty for any other name.
std::string_view WhyNotDescribed(std::string_view name);

// All known names, grouped by family, in a fixed order.
std::span<const std::string_view> ModelPresetNames();

}  // namespace twin
