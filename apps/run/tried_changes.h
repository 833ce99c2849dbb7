// The changes that were shown to help a run, by runs of the changed experiment.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/run/bottleneck.h"
#include "config/experiment_config.h"
#include "run/record/summary.h"
#include "run/run_control.h"

namespace twin::apps {

struct Advice {
  std::string bottleneck;
  std::vector<std::string> lines;  // what was tried and what came of it
};

struct AdvisedRun {
  const ExperimentConfig& config;  // borrowed, as all members
  const Summary& summary;
  bool tries;                   // false: only the bottleneck is said
  bool has_options;             // the experiment comes from options
  std::string experiment_file;  // for further commands
  // The experiment with further changes, as --set takes them. Throws InputError.
  std::function<ExperimentConfig(const std::vector<std::string>&)> changed;
};

// The bottleneck of a run, and the changes that helped when they were tried: the changed run, with
// the same seed, improves the metric of the bottleneck by at least 5 %, serves no fewer requests,
// and no mean or p99 of TTFT or E2E grows by more than 5 %. A change that does not start is not
// mentioned. Where nothing waits, the run is repeated with twice the load.
//
// Simulates up to eight runs of the same length on all cores. Only the bottleneck is said of worlds
// that are not simulated, of runs of more than kStepsOfRepeatedRun steps, and after `control`
// wanted to stop.
Advice AdviceOn(const AdvisedRun& run, run::RunControl& control);

}  // namespace twin::apps
