// What runs of an experiment have in common, whichever world they are in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/run_directory.h"
#include "lab/run_observers.h"
#include "proto/experiment_config.h"
#include "record/summary.h"
#include "sched/engine.h"

namespace twin::lab {

struct RunOutcome {
  Summary summary;
  bool interrupted = false;
};

// Prompt + output tokens of one request: the least of what the model can, the memory is planned for
// and the policy allows.
std::int32_t ContextTokensMax(const ExperimentConfig& config);

// The engine of an experiment: its policy over its KV cache. Throws InputError (usage) if the
// policy swaps and there are no host blocks.
EngineConfig EngineConfigOf(const ExperimentConfig& config, const sim::KvCapacity& capacity);

// How a run ended.
struct RunEnd {
  bool interrupted = false;
  Summary more;  // entries of the run's own world, behind the others
};

// After the run: sums up, writes what every run directory holds, and puts it in its place. Throws
// InputError (data) if fewer requests came than the measured window was cut for.
RunOutcome CompleteRun(const ExperimentConfig& config, const EngineConfig& engine,
                       const std::string& resolved, const std::vector<std::string>& command_line,
                       const RunEnd& end, RunObservers& observers, RunDirectory& directory);

}  // namespace twin::lab
