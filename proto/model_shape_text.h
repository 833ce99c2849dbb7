// A model's shape on one line.
#pragma once

#include <string>
#include <string_view>

#include "core/model_spec.h"

namespace twin {

// Every field of the ModelShape message in text format, without line breaks.
std::string WriteModelShape(const ModelSpec& model);

// Throws InputError(kUsage) naming `source`, place and field.
ModelSpec ParseModelShape(std::string_view text, const std::string& source);

}  // namespace twin
