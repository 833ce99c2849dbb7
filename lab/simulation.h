// One simulated run, from its configuration to its files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lab/experiment_run.h"
#include "lab/run_control.h"
#include "proto/experiment_config.h"

namespace twin::lab {

// Runs the experiment in the simulated world and writes the run directory `out`: config.resolved.
// textproto, provenance.json, summary.json and the files that config.outputs asks for.
// `control` may end the run early; the run directory then covers what had happened by then.
// Throws InputError, InvariantViolation, std::system_error; then no directory is left behind.
RunOutcome RunSimulation(const ExperimentConfig& config, const std::filesystem::path& out,
                         const std::vector<std::string>& command_line, RunControl& control);

}  // namespace twin::lab
