// The shape of a model as one line of text format.
#pragma once

#include <string>
#include <string_view>

#include "core/model_spec.h"

namespace twin {

// All fields of the ModelShape message, without line breaks.
std::string WriteModelShape(const ModelSpec& model);

// Throws InputError(kUsage) with `source`, position and field.
ModelSpec ParseModelShape(std::string_view text, const std::string& source);

}  // namespace twin
