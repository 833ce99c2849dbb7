// Estimates the size of a run directory before the run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/experiment_config.h"

namespace twin::run {

// Estimated bytes that the outputs of an experiment take per request: averages over the experiments
// of experiments/quickstart (2,000 requests each). Requests with longer outputs take more.
std::int64_t OutputBytesPerRequest(const OutputsConfig& outputs);

// One line that announces the size of the run directory and says how to make it smaller, for
// experiments of more than 100,000 requests with such outputs; nullopt otherwise.
std::optional<std::string> LargeOutputNote(const ExperimentConfig& config);

}  // namespace twin::run
