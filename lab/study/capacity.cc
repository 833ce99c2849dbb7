#include "lab/study/capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "core/check.h"
#include "core/input_error.h"
#include "lab/study/capacity_search.h"

namespace twin::lab {
namespace {

using Searches = std::vector<std::unique_ptr<CapacitySearch>>;

void RequireQuestion(const std::vector<ExperimentTemplate>& experiments,
                     const CapacityQuestion& question) {
  CHECK(!experiments.empty() && !question.bounds.empty() && question.replications >= 2);
  if (!(question.from < question.to)) {
    throw InputError(InputError::Kind::kUsage, "between",
                     fmt::format("{} is not below {}; allowed: a value at which the bounds hold, "
                                 "then one at which they do not",
                                 question.from, question.to));
  }
  for (const ExperimentTemplate& experiment : experiments)
    experiment.CheckChange(fmt::format("{}={}", question.path, std::llround(question.from)));
}

// Whether the value is that of shorter runs, up to the tolerance.
bool IsSettled(double before, double now, double tolerance) {
  if (std::isnan(now)) return true;  // longer runs hold at even fewer values
  return std::abs(now - before) <= tolerance * std::abs(now);
}

// Doubles the runs of all experiments until no value moves.
void FindValues(const Searches& searches, const CapacityQuestion& question) {
  std::vector<std::int64_t> requests;
  for (const auto& search : searches) requests.push_back(search->own_requests());
  for (int doubling = 0;; ++doubling) {
    bool all_settled = true;
    for (std::size_t i = 0; i < searches.size(); ++i) {
      const double before = searches[i]->found().value;
      searches[i]->FindValue(requests[i]);
      Capacity& found = searches[i]->found();
      found.settled = (doubling > 0 && IsSettled(before, found.value, question.tolerance)) ||
                      found.verdict == Capacity::Verdict::kHoldsNowhere;
      all_settled = all_settled && found.settled;
      requests[i] *= 2;
    }
    // A trace as a whole cannot be doubled.
    if (all_settled || doubling == question.doublings_max || requests.front() == 0) return;
  }
}

}  // namespace

CapacityAnswer FindCapacities(const std::vector<ExperimentTemplate>& experiments,
                              const std::vector<std::string>& names,
                              const CapacityQuestion& question, RunControl& control) {
  RequireQuestion(experiments, question);
  Searches searches;
  CapacityAnswer answer;
  for (std::size_t i = 0; i < experiments.size(); ++i) {
    searches.push_back(std::make_unique<CapacitySearch>(experiments[i], question, control));
    searches.back()->found().experiment = names[i];
  }
  try {
    FindValues(searches, question);
    for (const auto& search : searches) search->FindInterval();
  } catch (const SearchStopped&) {
    answer.interrupted = true;
  }
  control.OnProgressEnd();
  for (const auto& search : searches) {
    search->CountRuns();
    answer.capacities.push_back(search->found());
  }
  if (answer.interrupted) return answer;
  const std::vector<Capacity>& found = answer.capacities;
  const double level = 1 - (1 - question.confidence) /
                               static_cast<double>(std::max<std::size_t>(2, found.size()) - 1);
  for (std::size_t i = 1; i < found.size(); ++i) {
    if (found[0].roots.empty() || found[i].roots.empty()) continue;
    answer.comparisons.push_back({i, 0, ComparePaired(found[i].roots, found[0].roots, level)});
  }
  return answer;
}

}  // namespace twin::lab
