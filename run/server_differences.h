// Differences between the server of an experiment and its simulation.
#pragma once

#include <string>
#include <vector>

#include "config/experiment_config.h"

namespace twin::run {

// One line per difference between the release that system.server names and the simulation, if it
// changes what the run gives; empty without system.server, or with another policy than its own.
// Reads the first requests of the workload if a difference is one of shared prefixes. Throws
// InputError if a file of the workload is bad.
std::vector<std::string> ServerDifferences(const ExperimentConfig& config);

}  // namespace twin::run
