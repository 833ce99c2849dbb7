// One run in the simulated or the emulated world, with or without a run directory.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "run/deployment.h"
#include "run/run_control.h"
#include "run/run_metrics.h"
#include "run/run_outcome.h"

namespace twin::run {

// Runs the deployment and returns its summary; nothing is written. `watchers` see the run as it
// happens. `control` may end it early. Uses no global: calls on several threads are independent
// (but `cpu_seconds` and `peak_rss_mib` are the process's). `threads` serve the replicas where
// these can be served separately (serve_ahead.h), with the same results.
// REQUIRES: a deployment of a simulated or emulated world.
// Throws InputError (the workload's files are damaged, too few requests), InvariantViolation.
RunOutcome Simulate(const Deployment& deployment, RunControl& control,
                    const RunWatchers& watchers = {}, int threads = 1);

// Resolves and runs the experiment, and writes the run directory `out`: config.resolved.textproto,
// provenance.json, summary.json and the files that config.outputs asks for. `command_line` goes
// into provenance.json.
// `costs` as for Resolve(); null: nothing is shared. `control` receives the deployment's warnings
// and may end the run early; the run directory then covers the time until then. Throws as Simulate,
// and std::system_error; no directory remains after an error.
RunOutcome RunSimulation(const ExperimentConfig& config, const std::filesystem::path& out,
                         const std::vector<std::string>& command_line, RunControl& control,
                         int threads = 1, CostCache* costs = nullptr);

}  // namespace twin::run
