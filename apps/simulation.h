// One simulated run, from its configuration to its files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/experiment_run.h"
#include "proto/experiment_config.h"

namespace twin::apps {

// Runs the experiment in the simulated world and writes the run directory `out`: config.resolved.
// textproto, provenance.json, summary.json and the files that config.outputs asks for.
// An interrupt (Ctrl-C) ends the run early and keeps what it has.
// Throws InputError, InvariantViolation, std::system_error; then no directory is left behind.
RunOutcome RunSimulation(const ExperimentConfig& config, const std::filesystem::path& out,
                         const std::vector<std::string>& command_line);

}  // namespace twin::apps
