// The result of a run in at most 15 lines.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "apps/experiment_options/option_experiment.h"
#include "apps/run/certainty.h"
#include "apps/run/tried_changes.h"
#include "config/experiment_config.h"
#include "run/record/summary.h"

namespace twin::apps {

struct AnsweredRun {
  const ExperimentConfig& config;  // borrowed, as all members
  const OptionExperiment& made;    // empty for a file
  const Summary& summary;
  const Certainty& certainty;
  const std::vector<std::string>& ignored;  // AskedExperiment::SortedOptions()
  int warnings = 0;                         // that were shown
  const Advice& advice;
};

// Writes how sure the results are, what was run and what the user left open, latencies, counts, the
// bottleneck and what was tried, and the options that were ignored.
void WriteAnswer(std::ostream& out, const AnsweredRun& run);

}  // namespace twin::apps
