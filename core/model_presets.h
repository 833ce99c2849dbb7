// The shapes of public models, by name.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "core/model_spec.h"

namespace twin {

// The preset called `name`, with values as in its public config.json and in the format in which it
// was published. Names are lower case with dashes (llama-3-8b); capitals and separators do not
// count. None for another name; core/model_names.h knows further names.
std::optional<ModelSpec> FindModelPreset(std::string_view name);

// All names, grouped by family, in a fixed order.
std::span<const std::string_view> ModelPresetNames();

}  // namespace twin
