// The files of config/models/presets, which are part of the program.
#pragma once

#include <span>

#include "core/files/embedded_file.h"

namespace twin {

// The files NAME/config.json, in the order of presets.csv.
std::span<const EmbeddedFile> PresetConfigs();

// presets.csv, aliases.csv and why_not.csv.
std::span<const EmbeddedFile> PresetTables();

}  // namespace twin
