#include "run/many/capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "core/check.h"
#include "core/input_error.h"
#include "run/many/capacity_search.h"
#include "run/many/distinct_reports.h"

namespace twin::run {
namespace {

using Searches = std::vector<std::unique_ptr<CapacitySearch>>;

void RequireQuestion(const std::vector<ExperimentTemplate>& experiments,
                     const CapacityQuestion& question) {
  CHECK(!experiments.empty() && !question.bounds.empty() && question.replications >= 2);
  const bool finite = std::isfinite(question.from) && std::isfinite(question.to);
  if (!finite || !(question.from < question.to)) {
    throw InputError(
        InputError::Kind::kUsage, "between",
        fmt::format("is {} and {}; allowed: a finite value at which the bounds {}, "
                    "then a larger one at which they {}",
                    question.from, question.to, question.smallest ? "do not hold" : "hold",
                    question.smallest ? "hold" : "do not"));
  }
  for (const ExperimentTemplate& experiment : experiments)
    experiment.CheckChange(fmt::format("{}={}", question.path, std::llround(question.from)));
}

// The question about the negative of the setting: its largest value is the setting's smallest.
CapacityQuestion Mirrored(CapacityQuestion question) {
  if (!question.smallest) return question;
  question.from = -std::exchange(question.to, -question.from);
  return question;
}

// The answer to the question that was mirrored.
void MirrorBack(Capacity& found) {
  found.value = -found.value;
  found.low = -std::exchange(found.high, -found.low);
  found.by_seed = {-found.by_seed.value, -found.by_seed.high, -found.by_seed.low, found.by_seed.n};
  for (CapacityProbe& probe : found.probes) probe.x = -probe.x;
  for (double& root : found.roots) root = -root;
}

// Whether the value equals the value of shorter runs, up to the tolerance. `before`: nullopt for
// the first length.
Capacity::Settled SettledAfter(const CapacitySearch& search, std::optional<double> before,
                               const CapacityQuestion& question) {
  const Capacity& found = search.found();
  // Longer runs hold at even fewer values.
  if (found.verdict == Capacity::Verdict::kHoldsNowhere) return Capacity::Settled::kYes;
  if (!search.HasAllRequests()) return Capacity::Settled::kNotTestable;
  const double width =
      std::max(question.tolerance * std::abs(found.value), CapacitySearch::WidthMin(question));
  const bool settled = before && std::abs(found.value - *before) <= width;
  return settled ? Capacity::Settled::kYes : Capacity::Settled::kNo;
}

// Doubles the runs of all experiments that have longer ones until no value moves.
void FindValues(const Searches& searches, const CapacityQuestion& question) {
  std::vector<std::int64_t> requests;
  for (const auto& search : searches) requests.push_back(search->own_requests());
  for (int doubling = 0; doubling <= question.doublings_max; ++doubling) {
    bool moves = false;
    for (std::size_t i = 0; i < searches.size(); ++i) {
      Capacity& found = searches[i]->found();
      if (found.settled == Capacity::Settled::kNotTestable) continue;
      const std::optional<double> before =
          doubling == 0 ? std::nullopt : std::optional<double>(found.value);
      searches[i]->FindValue(requests[i]);
      found.settled = SettledAfter(*searches[i], before, question);
      moves = moves || found.settled == Capacity::Settled::kNo;
      requests[i] *= 2;
    }
    if (!moves) return;
  }
}

}  // namespace

const char* NameOf(Capacity::Verdict verdict) {
  if (verdict == Capacity::Verdict::kFound) return "found";
  return verdict == Capacity::Verdict::kHoldsNowhere ? "holds nowhere" : "holds everywhere";
}

const char* NameOf(Sign verdict) {
  if (verdict == Sign::kUndecided) return "undecided";
  return verdict == Sign::kPositive ? "accepted" : "rejected";
}

CapacityAnswer FindCapacities(const std::vector<ExperimentTemplate>& experiments,
                              const std::vector<std::string>& names, const CapacityQuestion& asked,
                              RunControl& control) {
  RequireQuestion(experiments, asked);
  const CapacityQuestion question = Mirrored(asked);
  DistinctReports reports(control);
  Searches searches;
  CapacityAnswer answer;
  for (std::size_t i = 0; i < experiments.size(); ++i) {
    searches.push_back(std::make_unique<CapacitySearch>(experiments[i], question, reports));
    searches.back()->found().experiment = names[i];
  }
  try {
    FindValues(searches, question);
    for (const auto& search : searches) search->FindInterval();
  } catch (const SearchStopped&) {
    answer.interrupted = true;
  }
  reports.OnProgressEnd();
  reports.Finish();
  for (const auto& search : searches) {
    search->CountRuns();
    answer.capacities.push_back(search->found());
    if (question.smallest) MirrorBack(answer.capacities.back());
  }
  if (answer.interrupted) return answer;
  const std::vector<Capacity>& found = answer.capacities;
  const double level = 1 - (1 - question.confidence) /
                               static_cast<double>(std::max<std::size_t>(2, found.size()) - 1);
  for (std::size_t i = 1; i < found.size(); ++i) {
    if (found[0].roots.empty() || found[i].roots.empty()) continue;
    if (found[0].censored + found[i].censored > 0) continue;
    answer.comparisons.push_back({i, 0, ComparePaired(found[i].roots, found[0].roots, level)});
  }
  return answer;
}

}  // namespace twin::run
