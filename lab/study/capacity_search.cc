#include "lab/study/capacity_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lab/study/parallel_runs.h"

namespace twin::lab {
namespace {

constexpr double kNowhere = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kFirstSeeds = 10;  // the test looks from here on
constexpr std::size_t kMoreSeeds = 5;
// Tests in a search, among which the error is divided.
constexpr double kTestsMax = 32;
constexpr int kEndProbesMax = 6;

}  // namespace

std::vector<double> CapacitySearch::RoomOf(const std::vector<double>& values) const {
  std::vector<double> rooms;
  for (std::size_t b = 0; b < question_.bounds.size(); ++b) {
    const MetricBound& bound = question_.bounds[b];
    const double scale = bound.limit == 0 ? 1 : std::abs(bound.limit);
    rooms.push_back(bound.Slack(values[b]) / scale);
  }
  return rooms;
}

double CapacitySearch::Least(const std::vector<double>& rooms) {
  double least = std::numeric_limits<double>::infinity();
  for (const double room : rooms) {
    least = std::min(least, std::isnan(room) ? -std::numeric_limits<double>::infinity() : room);
  }
  return least;
}

std::vector<double> CapacitySearch::MeanRoom(double x, std::size_t seeds) const {
  std::vector<double> means(question_.bounds.size(), 0.0);
  for (std::size_t seed = 0; seed < seeds; ++seed) {
    const std::vector<double> rooms = RoomOf(runs_.Made(x, seed));
    for (std::size_t b = 0; b < means.size(); ++b) means[b] += rooms[b];
  }
  for (double& mean : means) mean /= static_cast<double>(seeds);
  return means;
}

Sign CapacitySearch::Test(double x, std::size_t seeds) const {
  const double alpha = (1 - question_.confidence) / kTestsMax;
  bool accepted = true;
  for (std::size_t b = 0; b < question_.bounds.size(); ++b) {
    std::vector<double> rooms;
    for (std::size_t seed = 0; seed < seeds; ++seed)
      rooms.push_back(RoomOf(runs_.Made(x, seed))[b]);
    if (std::ranges::any_of(rooms, [](double room) { return std::isnan(room); }))
      return seeds >= kFirstSeeds ? Sign::kNegative : Sign::kUndecided;
    const Sign sign = SequentialSign(rooms, alpha / static_cast<double>(question_.bounds.size()));
    if (sign == Sign::kNegative) return sign;
    accepted = accepted && sign == Sign::kPositive;
  }
  return accepted ? Sign::kPositive : Sign::kUndecided;
}

void CapacitySearch::Note(double x, std::size_t seeds, Sign verdict) {
  const std::vector<double> rooms = MeanRoom(x, seeds);
  const auto least = static_cast<std::size_t>(std::ranges::min_element(rooms) - rooms.begin());
  std::vector<double> values;
  for (std::size_t seed = 0; seed < seeds; ++seed) values.push_back(runs_.Made(x, seed)[least]);
  const CapacityProbe probe{.x = x,
                            .requests = runs_.requests(),
                            .n = seeds,
                            .metric = question_.bounds[least].metric,
                            .interval = MeanInterval(values, question_.confidence),
                            .verdict = verdict};
  for (CapacityProbe& known : found_.probes) {
    if (known.x != x || known.requests != probe.requests) continue;
    known = probe;
    return;
  }
  found_.probes.push_back(probe);
}

bool CapacitySearch::Holds(double x) {
  const std::size_t all = question_.replications;
  if (runs_.Has(x, all - 1)) return HoldsForAll(x);
  std::size_t seeds = std::min(kFirstSeeds, all);
  for (;; seeds = std::min(seeds + kMoreSeeds, all)) {
    runs_.Run(x, seeds);
    const Sign sign = Test(x, seeds);
    if (sign == Sign::kUndecided && seeds < all) continue;
    Note(x, seeds, sign);
    return Least(MeanRoom(x, seeds)) >= 0;
  }
}

bool CapacitySearch::HoldsForAll(double x) {
  runs_.Run(x, question_.replications);
  Note(x, question_.replications, Test(x, question_.replications));
  return Least(MeanRoom(x, question_.replications)) >= 0;
}

bool CapacitySearch::IsNarrow(const Bracket& bracket) const {
  const double width = bracket.high - bracket.low;
  if (runs_.whole() && width <= 1) return true;
  const double middle = Middle(bracket);
  if (middle <= bracket.low || middle >= bracket.high) return true;
  return width <= question_.tolerance * std::abs(bracket.high);
}

double CapacitySearch::Middle(const Bracket& bracket) const {
  const bool wide = bracket.low > 0 && bracket.high > 2 * bracket.low;
  const double middle =
      wide ? std::sqrt(bracket.low * bracket.high) : (bracket.low + bracket.high) / 2;
  return runs_.Rounded(middle);
}

std::optional<CapacitySearch::Bracket> CapacitySearch::FirstBracket() {
  Bracket bracket{runs_.Rounded(question_.from), runs_.Rounded(question_.to)};
  if (has_value_ && found_.verdict == Capacity::Verdict::kFound) return BracketNear(bracket);
  if (!Holds(bracket.low)) return HoldsNowhere();
  if (Holds(bracket.high)) return HoldsEverywhere(bracket.high);
  return bracket;
}

std::optional<CapacitySearch::Bracket> CapacitySearch::HoldsNowhere() {
  found_.verdict = Capacity::Verdict::kHoldsNowhere;
  found_.value = kNowhere;
  return std::nullopt;
}

std::optional<CapacitySearch::Bracket> CapacitySearch::HoldsEverywhere(double end) {
  found_.verdict = Capacity::Verdict::kHoldsEverywhere;
  found_.value = end;
  return std::nullopt;
}

// Longer runs move the value a little, and down.
std::optional<CapacitySearch::Bracket> CapacitySearch::BracketNear(const Bracket& ends) {
  Bracket bracket{found_.value, found_.value};
  double step = 4 * question_.tolerance * std::abs(found_.value);
  for (;; step *= 2) {
    bracket.low = std::max(ends.low, runs_.Rounded(found_.value - step));
    if (Holds(bracket.low)) break;
    if (bracket.low == ends.low) return HoldsNowhere();
    bracket.high = bracket.low;
  }
  if (bracket.high < found_.value) return bracket;
  for (step = question_.tolerance * std::abs(found_.value);; step *= 2) {
    bracket.high = std::min(ends.high, runs_.Rounded(found_.value + step));
    if (!Holds(bracket.high)) return bracket;
    if (bracket.high == ends.high) return HoldsEverywhere(ends.high);
    bracket.low = bracket.high;
  }
}

void CapacitySearch::Bisect(Bracket& bracket) {
  while (!IsNarrow(bracket)) {
    const double middle = Middle(bracket);
    (Holds(middle) ? bracket.low : bracket.high) = middle;
  }
  // The ends decide for all seeds; a test that stopped early is hardly ever overturned.
  for (int i = 0; i < 2; ++i) {
    if (!HoldsForAll(bracket.low)) {
      bracket.high = bracket.low;
      bracket.low = runs_.Rounded(question_.from);
    } else if (HoldsForAll(bracket.high)) {
      bracket.low = bracket.high;
      bracket.high = runs_.Rounded(question_.to);
    } else {
      return;
    }
    while (!IsNarrow(bracket)) {
      const double middle = Middle(bracket);
      (HoldsForAll(middle) ? bracket.low : bracket.high) = middle;
    }
  }
}

void CapacitySearch::SetValue(const Bracket& bracket) {
  const std::vector<double> below = MeanRoom(bracket.low, question_.replications);
  const std::vector<double> above = MeanRoom(bracket.high, question_.replications);
  found_.value = bracket.high;
  for (std::size_t b = 0; b < below.size(); ++b) {
    if (above[b] >= 0) continue;
    const double share = std::isfinite(above[b]) ? below[b] / (below[b] - above[b]) : 0;
    const double root = bracket.low + share * (bracket.high - bracket.low);
    if (root >= found_.value && !found_.limiting.empty()) continue;
    found_.value = root;
    found_.limiting = question_.bounds[b].text();
  }
  if (runs_.whole()) found_.value = bracket.low;
}

void CapacitySearch::FindValue(std::int64_t requests) {
  runs_.SetRequests(requests);
  found_.requests = requests;
  const std::optional<Bracket> bracket = FirstBracket();
  found_.limiting.clear();
  has_value_ = true;
  if (!bracket) return;
  bracket_ = *bracket;
  found_.verdict = Capacity::Verdict::kFound;
  Bisect(bracket_);
  SetValue(bracket_);
}

double CapacitySearch::SeedRoom(double x, std::size_t seed, RunControl& control) {
  return Least(RoomOf(runs_.Values(x, seed, control)));
}

// Where this seed alone breaks a bound: a wider and wider bracket about the mean's, then bisection.
double CapacitySearch::RootOf(std::size_t seed, RunControl& control) {
  Bracket bracket = bracket_;
  const double from = runs_.Rounded(question_.from);
  const double to = runs_.Rounded(question_.to);
  double step = std::max(2 * (bracket.high - bracket.low), runs_.whole() ? 1.0 : 0.0);
  while (SeedRoom(bracket.low, seed, control) < 0) {
    if (bracket.low <= from) return from;
    bracket.high = bracket.low;
    bracket.low = std::max(from, runs_.Rounded(bracket.low - step));
    step *= 2;
  }
  while (SeedRoom(bracket.high, seed, control) >= 0) {
    if (bracket.high >= to) return to;
    bracket.low = bracket.high;
    bracket.high = std::min(to, runs_.Rounded(bracket.high + step));
    step *= 2;
  }
  while (!IsNarrow(bracket)) {
    const double middle = Middle(bracket);
    (SeedRoom(middle, seed, control) >= 0 ? bracket.low : bracket.high) = middle;
  }
  if (runs_.whole()) return bracket.low;
  const double below = SeedRoom(bracket.low, seed, control);
  const double above = SeedRoom(bracket.high, seed, control);
  const double share = std::isfinite(above) ? below / (below - above) : 0;
  return bracket.low + share * (bracket.high - bracket.low);
}

// Moves away from the value until the test decides as wanted, or an end is reached.
void CapacitySearch::FindEnd(double step, Sign wanted) {
  const double from = runs_.Rounded(question_.from);
  const double to = runs_.Rounded(question_.to);
  for (int i = 0; i < kEndProbesMax; ++i, step *= 2) {
    const bool down = wanted == Sign::kPositive;
    const double x = std::clamp(runs_.Rounded(found_.value + (down ? -step : step)), from, to);
    Holds(x);
    const auto probe = std::ranges::find_if(found_.probes, [&](const CapacityProbe& one) {
      return one.x == x && one.requests == runs_.requests();
    });
    if (probe->verdict == wanted || x == (down ? from : to)) return;
  }
}

void CapacitySearch::FindInterval() {
  found_.low = kNowhere;
  found_.high = kNowhere;
  if (found_.verdict == Capacity::Verdict::kFound) {
    found_.roots.assign(question_.replications, 0.0);
    RunInParallel(
        question_.replications, question_.jobs, control_,
        [&](std::size_t seed, RunControl& stop) { found_.roots[seed] = RootOf(seed, stop); },
        [](std::size_t) {});
    if (control_.StopRequested()) throw SearchStopped{};
    found_.by_seed = MeanInterval(found_.roots, question_.confidence);
    const double half = (found_.by_seed.high - found_.by_seed.low) / 2;
    const double step = std::max(half, question_.tolerance * std::abs(found_.value));
    FindEnd(runs_.whole() ? std::max(step, 1.0) : step, Sign::kPositive);
    FindEnd(runs_.whole() ? std::max(step, 1.0) : step, Sign::kNegative);
  }
  for (const CapacityProbe& probe : found_.probes) {
    if (probe.requests != found_.requests) continue;
    if (probe.verdict == Sign::kPositive && !(found_.low >= probe.x)) found_.low = probe.x;
    if (probe.verdict == Sign::kNegative && !(found_.high <= probe.x)) found_.high = probe.x;
  }
  found_.monotone = !(found_.low > found_.high);
}

}  // namespace twin::lab
