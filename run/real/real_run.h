// One run on a real device.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/experiment_config.h"
#include "exec/comm/communicator.h"
#include "run/run_control.h"
#include "run/run_outcome.h"

namespace twin::run {

// Serves the experiment on this machine, writes the run directory `out`, and returns the run's
// summary. Fields that depend on the machine are filled in first (real_system.h). The directory has
// the files of a simulated run, and parts.csv (with outputs.record); the summary also has the mean
// time of a step's parts, mean_step_gemm_ms and so on. `control` may end the run early: steps in
// flight are finished.
// Ranks are threads of this process, or processes: with their group `processes`, this is rank 0's
// call, and the other ranks call FollowReal.
// REQUIRES: asked.world is real.
// Throws InputError, InvariantViolation, std::bad_alloc, kernels::cuda::DeviceError,
// std::system_error; then no directory is left.
RunOutcome RunReal(const ExperimentConfig& asked, const std::filesystem::path& out,
                   const std::vector<std::string>& command_line, RunControl& control,
                   exec::Communicator* processes = nullptr);

// Computes this rank's share of RunReal until rank 0 has finished. Reads the model, writes nothing.
// The caller ignores interrupts meanwhile: rank 0 answers them. Returns false if another rank
// failed, which reports the reason.
bool FollowReal(const ExperimentConfig& asked, exec::Communicator& processes);

}  // namespace twin::run
