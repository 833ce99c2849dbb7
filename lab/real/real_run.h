// One run on a real device, from its configuration to its files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exec/comm/communicator.h"
#include "lab/experiment_run.h"
#include "lab/run_control.h"
#include "proto/experiment_config.h"

namespace twin::lab {

// Runs the experiment in its real world and writes what a simulated run writes, and parts.csv (with
// outputs.record). config.resolved.textproto has what depends on the machine filled in (real_
// system.h). The summary has a step's mean time per part too, mean_step_gemm_ms and so on.
// `control` may end the run early: the steps in flight are finished, and what is there is kept.
// REQUIRES: config.world is real. Throws as RunSimulation, and std::bad_alloc.
// With `processes`, the group of all ranks, this is rank 0's call, and the others are in
// FollowReal.
RunOutcome RunReal(const ExperimentConfig& config, const std::filesystem::path& out,
                   const std::vector<std::string>& command_line, RunControl& control,
                   exec::Communicator* processes = nullptr);
// Reads, writes and prints nothing but errors. The caller ignores interrupts meanwhile: rank 0
// answers them. False: another rank failed and says why.
bool FollowReal(const ExperimentConfig& config, exec::Communicator& processes);

}  // namespace twin::lab
