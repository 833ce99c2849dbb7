// How sure a simulated run is: intervals of its latencies, and the recorded runs nearest to it.
#pragma once

#include <cstdint>
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

// Longer runs are not repeated.
inline constexpr std::int64_t kStepsOfRepeatedRun = 50'000;

[[nodiscard]] bool IsShortEnoughToRepeat(const Summary& summary);

// `summary` is that of the run. Repeats the run `draws` times on all cores (0: not at all) if it is
// simulated and short enough, which takes about a second for 20; `control` may end this early. With
// draws, the text also names the nearest recorded run.
// REQUIRES: draws is 0 or at least run::kDrawsMin.
Certainty CertaintyOf(const ExperimentConfig& config, const Summary& summary, int draws,
                      run::RunControl& control);

}  // namespace twin::apps
