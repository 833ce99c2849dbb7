// Files of fitted cost coefficients, as `twinserve fit` writes them.
#pragma once

#include <filesystem>
#include <string>

#include "sim/cost/fitted_config.h"

namespace twin {

// Throws InputError(kUsage) with file, position and field if the file is not a FittedCost message.
sim::FittedCostConfig ReadFittedCostFile(const std::filesystem::path& path);

// The content of such a file; reading it gives an equal config.
std::string WriteFittedCost(const sim::FittedCostConfig& config);

}  // namespace twin
