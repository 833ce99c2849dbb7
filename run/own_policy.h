// Experiments whose policy is a file that was not loaded yet, as those of records.
#pragma once

#include <optional>

#include "config/experiment_config.h"

namespace twin::run {

// A copy of the experiment with its policy's file loaded; nullopt if it names none, or has loaded
// it. Throws as LoadOwnPolicy.
std::optional<ExperimentConfig> WithOwnPolicy(const ExperimentConfig& config);

}  // namespace twin::run
