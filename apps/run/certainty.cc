#include "apps/run/certainty.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/run/recorded_runs.h"
#include "core/input_error.h"
#include "core/number_text.h"

namespace twin::apps {
namespace {

constexpr int kDraws = 20;
constexpr std::int64_t kStepsOfDrawnRun = 50'000;

std::optional<run::UncertaintyComparison> Draw(const ExperimentConfig& config,
                                               run::RunControl& control) {
  try {
    return run::CompareDraws({config}, kDraws, control);
  } catch (const InputError&) {
    if (!control.StopRequested()) throw;
    return std::nullopt;  // the run itself is complete
  }
}

std::string IntervalText(const Certainty& certainty) {
  if (!certainty.draws) {
    return fmt::format("no intervals (draws are made for simulated runs of up to {} steps)",
                       kStepsOfDrawnRun);
  }
  return fmt::format("one more draw of {} lies within an interval with 90 % ({} draws)",
                     certainty.draws->has_model_errors
                         ? "arrivals and errors of the cost model"
                         : "arrivals (the errors of the cost model are unknown)",
                     certainty.draws->draws);
}

std::string RecordedText(const SystemConfig& system) {
  const std::optional<RecordedRuns> nearest = NearestRecordedRuns(system);
  if (!nearest) return "no recorded run is like this";
  const bool same_device = nearest->device == system.hardware_spec.name;
  return fmt::format("nearest recorded run{}: {} on {} x {}, mean E2E {} % off{}",
                     nearest->runs == 1 ? "" : "s", nearest->model, nearest->tensor,
                     nearest->device, RoundedText(nearest->e2e_error_pct, 2),
                     same_device ? "" : fmt::format("; none on {}", system.hardware_spec.name));
}

}  // namespace

const run::DrawnInterval* Certainty::Find(std::string_view metric) const {
  if (!draws) return nullptr;
  const auto found = std::ranges::find(draws->metrics, metric, &run::DrawnMetric::name);
  return found == draws->metrics.end() ? nullptr : &found->values.front();
}

Certainty CertaintyOf(const ExperimentConfig& config, const Summary& summary,
                      run::RunControl& control) {
  Certainty certainty;
  const bool is_short = summary.Number("steps") <= static_cast<double>(kStepsOfDrawnRun);
  if (IsSimulated(config.world) && is_short && !control.StopRequested()) {
    certainty.draws = Draw(config, control);
  }
  certainty.text =
      fmt::format("Certainty: {}; {}", IntervalText(certainty), RecordedText(config.system));
  return certainty;
}

}  // namespace twin::apps
