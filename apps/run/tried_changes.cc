#include "apps/run/tried_changes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "apps/run/certainty.h"
#include "apps/run/summary_number.h"
#include "core/input_error.h"
#include "core/number_text.h"
#include "run/many/parallel_runs.h"
#include "run/record/metric_catalog.h"
#include "run/simulation.h"

namespace twin::apps {
namespace {

constexpr double kHelps = 0.05;      // share by which a metric improves at least
constexpr double kTolerated = 0.05;  // share by which another latency may grow
constexpr std::size_t kShownMax = 2;

constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kLatencies = {
    {{"mean_ttft_ms", "mean TTFT"},
     {"p99_ttft_ms", "p99 TTFT"},
     {"mean_tpot_ms", "mean TPOT"},
     {"p99_itl_ms", "p99 ITL"},
     {"mean_e2el_ms", "mean E2E"},
     {"p99_e2el_ms", "p99 E2E"}}};
// These a change must not make worse. TPOT and ITL are parts of E2E: larger batches lengthen them.
constexpr std::array<std::string_view, 4> kKept = {"mean_ttft_ms", "p99_ttft_ms", "mean_e2el_ms",
                                                   "p99_e2el_ms"};

struct Trial {
  ProposedChange change;
  std::int32_t devices = 0;
  std::optional<Summary> summary;  // nullopt: the change does not start
};

// Drops the warnings of trials, which are not those of the run.
class QuietControl final : public run::RunControl {
 public:
  explicit QuietControl(const run::RunControl& outer) : outer_(outer) {}
  [[nodiscard]] bool StopRequested() const override { return outer_.StopRequested(); }

 private:
  const run::RunControl& outer_;
};

std::string TitleOf(std::string_view metric) {
  const auto* const found =
      std::ranges::find(kLatencies, metric, [](const auto& row) { return row.first; });
  return std::string(found == kLatencies.end() ? metric : found->second);
}

std::string UnitOf(std::string_view metric) { return metric.ends_with("_ms") ? " ms" : ""; }

// Growth of a metric as a share of its first value; NaN if one is undefined.
double Growth(const Summary& before, const Summary& after, std::string_view metric) {
  return NumberIn(after, metric) / NumberIn(before, metric) - 1;
}

double Gain(const Summary& before, const Summary& after, std::string_view metric) {
  const double growth = Growth(before, after, metric);
  return HigherIsBetter(metric).value_or(false) || metric == "completed" ? growth : -growth;
}

bool Helps(const Summary& before, const Summary& after, std::string_view metric) {
  if (!(Gain(before, after, metric) >= kHelps)) return false;
  if (NumberIn(after, "completed") < NumberIn(before, "completed")) return false;
  // More answers have other latencies.
  if (metric == "completed") return true;
  return std::ranges::none_of(
      kKept, [&](std::string_view latency) { return Growth(before, after, latency) > kTolerated; });
}

std::string ChangeText(const Summary& before, const Summary& after, std::string_view metric) {
  return fmt::format("{} {} to {}{}", TitleOf(metric), TableNumber(NumberIn(before, metric)),
                     TableNumber(NumberIn(after, metric)), UnitOf(metric));
}

// The metric that was meant, and other latencies that moved.
std::string EffectText(const Summary& before, const Summary& after, std::string_view metric) {
  std::vector<std::string> parts = {ChangeText(before, after, metric)};
  for (const std::string_view other :
       {"p99_ttft_ms", "mean_tpot_ms", "p99_itl_ms", "mean_e2el_ms"}) {
    const bool moves = std::abs(Growth(before, after, other)) >= kHelps;
    if (other != metric && moves) parts.push_back(ChangeText(before, after, other));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

bool CanTry(const AdvisedRun& run, const run::RunControl& control) {
  return run.tries && IsSimulated(run.config.world) && IsShortEnoughToRepeat(run.summary) &&
         !control.StopRequested();
}

// Runs the changed experiments.
std::vector<Trial> Try(const AdvisedRun& run, const std::vector<ProposedChange>& changes,
                       run::RunControl& control) {
  std::vector<Trial> trials;
  for (const ProposedChange& change : changes) trials.push_back({change, 0, std::nullopt});
  const auto simulate = [&](std::size_t i, run::RunControl& inner) {
    try {
      const ExperimentConfig config = run.changed(trials[i].change.fields);
      trials[i].devices = config.system.replicas * config.system.devices();
      Summary summary = run::Simulate(run::Resolve(config), inner).summary;
      if (!inner.StopRequested()) trials[i].summary = std::move(summary);
    } catch (const InputError&) {
      // Such a server does not start, so that there is nothing to advise.
    }
  };
  QuietControl quiet(control);
  run::RunInParallel(trials.size(), 0, quiet, simulate, [](std::size_t /*i*/) {});
  return trials;
}

std::string TriedLine(const AdvisedRun& run, const Trial& trial, std::string_view metric) {
  const std::int32_t devices = run.config.system.replicas * run.config.system.devices();
  const std::string more =
      trial.devices > devices ? fmt::format(" ({} devices)", trial.devices) : "";
  return fmt::format("Tried: {}{} -> {}", trial.change.text, more,
                     EffectText(run.summary, *trial.summary, metric));
}

// The changes that help, those without further devices first, then by their gain.
std::vector<std::string> LinesOf(const AdvisedRun& run, const Bottleneck& bottleneck,
                                 std::vector<Trial> trials) {
  std::erase_if(trials, [&](const Trial& trial) {
    return !trial.summary || !Helps(run.summary, *trial.summary, bottleneck.metric);
  });
  std::ranges::stable_sort(trials, [&](const Trial& a, const Trial& b) {
    if (a.devices != b.devices) return a.devices < b.devices;
    return Gain(run.summary, *a.summary, bottleneck.metric) >
           Gain(run.summary, *b.summary, bottleneck.metric);
  });
  std::vector<std::string> lines;
  for (const Trial& trial : trials) {
    if (lines.size() < kShownMax) lines.push_back(TriedLine(run, trial, bottleneck.metric));
  }
  return lines;
}

std::string NoneHelps(const Bottleneck& bottleneck, const std::vector<Trial>& trials) {
  std::vector<std::string> names;
  for (const Trial& trial : trials) {
    if (trial.summary) names.push_back(trial.change.text);
  }
  if (names.empty()) return "";
  return fmt::format("Tried: {}; none improves {} by {:.0f} % without loss elsewhere",
                     fmt::join(names, ", "), TitleOf(bottleneck.metric), 100 * kHelps);
}

Advice NothingWaits(const AdvisedRun& run, run::RunControl& control) {
  Advice advice;
  advice.bottleneck =
      fmt::format("none at this load. Decodes read the weights for {} requests a step",
                  TableNumber(NumberIn(run.summary, "mean_batch_sequences")));
  if (!CanTry(run, control)) return advice;
  const ProposedChange more = TwiceTheLoad(run.config, run.has_options);
  if (more.fields.empty()) return advice;
  const std::vector<Trial> trials = Try(run, {more}, control);
  if (!trials.front().summary) return advice;
  const Summary& after = *trials.front().summary;
  const bool saturated = after.Find("saturated") != nullptr &&
                         *after.Find("saturated") == SummaryValue(std::string("yes"));
  advice.lines.push_back(fmt::format("Tried: twice the load ({}) -> {}{}", more.text,
                                     EffectText(run.summary, after, "p99_ttft_ms"),
                                     saturated ? "; saturated" : ""));
  const std::string command = CapacityCommand(run.config, run.experiment_file);
  if (!command.empty()) advice.lines.push_back("Largest load: " + command);
  return advice;
}

// A line on users in step, if their latencies are others once the users are mixed; else empty.
std::string StepLine(const AdvisedRun& run, run::RunControl& control) {
  const auto mixed = MixedOutputs(run.config, run.has_options);
  if (!mixed || !CanTry(run, control)) return "";
  const std::vector<Trial> trials = Try(run, {*mixed}, control);
  if (!trials.front().summary) return "";
  std::vector<std::string> parts;
  for (const std::string_view metric : {"mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms"}) {
    if (std::abs(Growth(run.summary, *trials.front().summary, metric)) < kHelps) continue;
    parts.push_back(ChangeText(run.summary, *trials.front().summary, metric));
  }
  if (parts.empty()) return "";
  return fmt::format(
      "In step: answers of one length end together, and their users begin together; "
      "mixed ({}) -> {}",
      mixed->text, fmt::join(parts, ", "));
}

Advice AdviceWithoutSteps(const AdvisedRun& run, run::RunControl& control) {
  if (!CanTry(run, control)) {
    const std::vector<Bottleneck> certain = BottlenecksOf(run.config, run.summary, nullptr);
    return certain.empty() ? NothingWaits(run, control) : Advice{certain.front().text, {}};
  }
  const ChangeWriter write(run.config, run.has_options);
  for (const Bottleneck& bottleneck : BottlenecksOf(run.config, run.summary, &write)) {
    const std::vector<Trial> trials = Try(run, bottleneck.changes, control);
    std::vector<std::string> lines = LinesOf(run, bottleneck, trials);
    if (lines.empty() && !bottleneck.is_certain) continue;
    if (lines.empty()) lines.push_back(NoneHelps(bottleneck, trials));
    std::erase(lines, "");
    return {bottleneck.text, std::move(lines)};
  }
  return NothingWaits(run, control);
}

}  // namespace

Advice AdviceOn(const AdvisedRun& run, run::RunControl& control) {
  Advice advice = AdviceWithoutSteps(run, control);
  if (std::string line = StepLine(run, control); !line.empty()) {
    advice.lines.push_back(std::move(line));
  }
  return advice;
}

}  // namespace twin::apps
