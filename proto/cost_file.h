// Fitted coefficients in a file of their own.
#pragma once

#include <filesystem>
#include <string>

#include "sim/cost/fitted_config.h"

namespace twin {

// Throws InputError(kUsage) naming file, place and field for what is no FittedCost message.
sim::FittedCostConfig ReadFittedCostFile(const std::filesystem::path& path);

// The text of such a file; reading it gives the same config.
std::string WriteFittedCost(const sim::FittedCostConfig& config);

}  // namespace twin
