#include "apps/run/certainty.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/experiment_options/option_names.h"
#include "apps/run/recorded_runs.h"
#include "config/servers/servers.h"
#include "core/input_error.h"
#include "core/number_text.h"

namespace twin::apps {
namespace {

std::optional<run::UncertaintyComparison> Draw(const ExperimentConfig& config, int draws,
                                               run::RunControl& control) {
  try {
    return run::CompareDraws({config}, draws, control);
  } catch (const InputError&) {
    if (!control.StopRequested()) throw;
    return std::nullopt;  // the run itself is complete
  }
}

std::string WhyNoDraws(const ExperimentConfig& config, const Summary& summary, int draws) {
  if (!IsSimulated(config.world)) return "no intervals: the run was not simulated";
  if (draws == 0) return "no intervals: --draws 20 makes them";
  if (!IsShortEnoughToRepeat(summary)) {
    return fmt::format("no intervals: more than {} steps", kStepsOfRepeatedRun);
  }
  return "no intervals: interrupted";
}

std::string IntervalText(const run::UncertaintyComparison& draws) {
  return fmt::format("one more draw of {} lies within an interval with 90 % ({} draws)",
                     draws.has_model_errors ? "arrivals and errors of the cost model"
                                            : "arrivals (the errors of the cost model are unknown)",
                     draws.draws);
}

std::string RecordedText(const SystemConfig& system) {
  const std::optional<RecordedRuns> nearest = NearestRecordedRuns(system);
  if (!nearest && system.server && system.groups.empty()) {
    return fmt::format("no run of {} was recorded", FindServer(*system.server)->server->title);
  }
  if (!nearest) return "no recorded run is like this";
  const bool same_device = nearest->device == system.hardware_spec.name;
  return fmt::format("nearest recorded run{}: {} on {} x {}, {}, mean E2E {} % off{}",
                     nearest->runs == 1 ? "" : "s", nearest->model, nearest->tensor,
                     nearest->device, ServerTitle(nearest->server, ""),
                     RoundedText(nearest->e2e_error_pct, 2),
                     same_device ? "" : fmt::format("; none on {}", system.hardware_spec.name));
}

}  // namespace

bool IsShortEnoughToRepeat(const Summary& summary) {
  return summary.Number("steps") <= static_cast<double>(kStepsOfRepeatedRun);
}

const run::DrawnInterval* Certainty::Find(std::string_view metric) const {
  if (!draws) return nullptr;
  const auto found = std::ranges::find(draws->metrics, metric, &run::DrawnMetric::name);
  return found == draws->metrics.end() ? nullptr : &found->values.front();
}

Certainty CertaintyOf(const ExperimentConfig& config, const Summary& summary, int draws,
                      run::RunControl& control) {
  Certainty certainty;
  const bool can_draw = IsSimulated(config.world) && IsShortEnoughToRepeat(summary);
  if (draws > 0 && can_draw && !control.StopRequested()) {
    certainty.draws = Draw(config, draws, control);
  }
  certainty.text = "Certainty: " + (certainty.draws ? IntervalText(*certainty.draws)
                                                    : WhyNoDraws(config, summary, draws));
  if (draws > 0) certainty.text += "; " + RecordedText(config.system);
  return certainty;
}

}  // namespace twin::apps
