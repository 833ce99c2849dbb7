// One run on a real device, with or without a run directory.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/experiment_config.h"
#include "exec/comm/communicator.h"
#include "run/run_control.h"
#include "run/run_metrics.h"
#include "run/run_outcome.h"

namespace twin::run {

// Serves the experiment on this machine and returns its summary; nothing is written. What depends
// on the machine is filled in first (real_system.h). `watchers` see the run as it happens.
// `control` may end it early: steps in flight are finished. Ranks are threads of this process.
// The summary also has the mean time of a step's parts, mean_step_gemm_ms and so on.
// REQUIRES: asked.world is real.
// Throws InputError, InvariantViolation, std::bad_alloc, kernels::cuda::DeviceError.
RunOutcome ServeReal(const ExperimentConfig& asked, RunControl& control,
                     const RunWatchers& watchers = {});

// The same, and writes the run directory `out`: what a simulated run writes, and parts.csv (with
// outputs.record). With `processes`, the group of all ranks, this is rank 0's call, and the other
// ranks call FollowReal. Throws std::system_error too; then no directory is left behind.
RunOutcome RunReal(const ExperimentConfig& asked, const std::filesystem::path& out,
                   const std::vector<std::string>& command_line, RunControl& control,
                   exec::Communicator* processes = nullptr);

// Computes this rank's share of RunReal until rank 0 has finished. Reads the model, writes nothing.
// The caller ignores interrupts meanwhile: rank 0 answers them. Returns false if another rank
// failed, which reports the reason.
bool FollowReal(const ExperimentConfig& asked, exec::Communicator& processes);

}  // namespace twin::run
