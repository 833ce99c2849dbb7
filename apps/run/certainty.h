// How sure a simulated run is: intervals of its latencies, and the recorded runs nearest to it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/experiment_config.h"
#include "run/record/summary.h"
#include "run/run_control.h"
#include "run/uncertainty_comparison.h"

namespace twin::apps {

struct Certainty {
  std::string text;  // one line
  // Draws of arrivals and of the errors of the cost model; nullopt if none were made.
  std::optional<run::UncertaintyComparison> draws;

  // The interval that holds one more draw with 90 %; null if there is none.
  [[nodiscard]] const run::DrawnInterval* Find(std::string_view metric) const;
};

// `summary` is that of the run. Repeats the run 20 times on all cores if it is simulated and had at
// most 50,000 steps, which takes about a second; `control` may end this early.
Certainty CertaintyOf(const ExperimentConfig& config, const Summary& summary,
                      run::RunControl& control);

}  // namespace twin::apps
