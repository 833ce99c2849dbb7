#include "run/many/capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
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
  for (Interval* interval : {&found.by_seed, &found.change}) {
    *interval = {-interval->value, -interval->high, -interval->low, interval->n};
  }
  for (CapacityProbe& probe : found.probes) probe.x = -probe.x;
  found.root = Mapped(std::move(found.root), [](double root) { return -root; });
}

// Two one-sided tests that the change is within the tolerance (Schuirmann, Journal of
// Pharmacokinetics and Biopharmaceutics 15, 1987): each end has the whole error.
Interval ChangeOf(const RootOfMean& now, const RootOfMean& before, double confidence) {
  if (now.without.empty() || before.without.empty()) return kNoInterval;
  return ComparePaired(PseudoValues(now), PseudoValues(before), 2 * confidence - 1).difference;
}

// Whether the value equals that of shorter runs, up to the tolerance, also at both ends of the
// change. `before`: nullptr for the first length.
Capacity::Settled SettledAfter(const CapacitySearch& search, const Capacity* before) {
  const Capacity& found = search.found();
  // Longer runs hold at even fewer values.
  if (found.verdict == Capacity::Verdict::kHoldsNowhere) return Capacity::Settled::kYes;
  if (!search.HasAllRequests()) return Capacity::Settled::kNotTestable;
  if (before == nullptr || before->verdict != found.verdict) return Capacity::Settled::kNo;
  const bool everywhere = found.verdict == Capacity::Verdict::kHoldsEverywhere;
  const bool settled = std::abs(found.value - before->value) <= search.Tolerated() &&
                       found.change.low >= -search.SmallestStep() &&
                       found.change.high <= search.SmallestStep();
  return everywhere || settled ? Capacity::Settled::kYes : Capacity::Settled::kNo;
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
      const Capacity before = found;
      searches[i]->FindValue(requests[i]);
      found.change = ChangeOf(found.root, before.root, question.confidence);
      found.settled = SettledAfter(*searches[i], doubling == 0 ? nullptr : &before);
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
    if (!std::isfinite(found[0].by_seed.low + found[i].by_seed.low)) continue;
    answer.comparisons.push_back({i, 0, CompareRoots(found[i].root, found[0].root, level)});
  }
  return answer;
}

}  // namespace twin::run
