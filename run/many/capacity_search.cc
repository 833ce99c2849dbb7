#include "run/many/capacity_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"

namespace twin::run {
namespace {

constexpr double kNowhere = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kFirstSeeds = 10;  // the test looks from here on
constexpr std::size_t kMoreSeeds = 5;
// The first tests of a search have equal shares of the error; all later ones together have one
// further share, each half as much as the one before. The shares of any number of tests then add up
// to the error at most.
constexpr std::size_t kEqualTests = 31;
constexpr int kEndProbesMax = 6;

}  // namespace

std::vector<double> CapacitySearch::RoomOf(const std::vector<double>& values) const {
  std::vector<double> rooms;
  for (std::size_t b = 0; b < question_.bounds.size(); ++b) {
    rooms.push_back(question_.bounds[b].Room(values[b]));
  }
  return rooms;
}

double CapacitySearch::SmallestRoom(const std::vector<double>& rooms) {
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

double CapacitySearch::ErrorOf(double x) {
  const std::size_t number = tests_.emplace(x, tests_.size()).first->second;
  const double share = (1 - question_.confidence) / static_cast<double>(kEqualTests + 1);
  if (number < kEqualTests) return share;
  return share * std::exp2(-static_cast<double>(number - kEqualTests + 1));
}

Sign CapacitySearch::Test(double x, std::size_t seeds) {
  const double alpha = ErrorOf(x);
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
  // A metric without a value counts as the smallest room.
  const auto none = std::ranges::find_if(rooms, [](double room) { return std::isnan(room); });
  const auto place = none != rooms.end() ? none : std::ranges::min_element(rooms);
  const auto least = static_cast<std::size_t>(place - rooms.begin());
  std::vector<double> values;
  for (std::size_t seed = 0; seed < seeds; ++seed) values.push_back(runs_.Made(x, seed)[least]);
  const CapacityProbe probe{.x = x,
                            .doubling = doubling_,
                            .requests = runs_.FewestArrived(x),
                            .n = seeds,
                            .metric = question_.bounds[least].metric,
                            .interval = MeanInterval(values, question_.confidence),
                            .verdict = verdict};
  for (CapacityProbe& known : found_.probes) {
    if (known.x != x || known.doubling != doubling_) continue;
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
    return SmallestRoom(MeanRoom(x, seeds)) >= 0;
  }
}

bool CapacitySearch::HoldsForAll(double x) {
  runs_.Run(x, question_.replications);
  Note(x, question_.replications, Test(x, question_.replications));
  return SmallestRoom(MeanRoom(x, question_.replications)) >= 0;
}

bool CapacitySearch::IsNarrow(const Bracket& bracket) const {
  const double width = bracket.high - bracket.low;
  if (runs_.whole() && width <= 1) return true;
  const double middle = Midpoint(bracket);
  if (middle <= bracket.low || middle >= bracket.high) return true;
  return width <= std::max(question_.tolerance * std::abs(bracket.high), WidthMin());
}

double CapacitySearch::WidthMin() const {
  constexpr double kParts = 64;
  if (question_.from > 0) return 0;
  return question_.tolerance * (question_.to - question_.from) / kParts;
}

double CapacitySearch::Tolerated() const {
  return std::max(question_.tolerance * std::abs(found_.value), WidthMin());
}

double CapacitySearch::StepOf(double step) const {
  return std::max({step, WidthMin(), runs_.whole() ? 1.0 : 0.0});
}

double CapacitySearch::Midpoint(const Bracket& bracket) const {
  const bool wide = bracket.low > 0 && bracket.high > 2 * bracket.low;
  const double middle =
      wide ? std::sqrt(bracket.low * bracket.high) : (bracket.low + bracket.high) / 2;
  return runs_.Rounded(middle);
}

std::optional<CapacitySearch::Bracket> CapacitySearch::FirstBracket() {
  const Bracket bracket{LowerEnd(), UpperEnd()};
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
  const double start = std::clamp(runs_.Rounded(found_.value), ends.low, ends.high);
  Bracket bracket{start, start};
  for (double step = StepOf(4 * question_.tolerance * std::abs(start));; step *= 2) {
    bracket.low = std::max(ends.low, runs_.Rounded(start - step));
    if (Holds(bracket.low)) break;
    if (bracket.low <= ends.low) return HoldsNowhere();
    bracket.high = bracket.low;
  }
  if (bracket.high < start) return bracket;
  for (double step = StepOf(question_.tolerance * std::abs(start));; step *= 2) {
    bracket.high = std::min(ends.high, runs_.Rounded(start + step));
    if (!Holds(bracket.high)) return bracket;
    if (bracket.high >= ends.high) return HoldsEverywhere(ends.high);
    bracket.low = bracket.high;
  }
}

// Decides by the test at first, which may stop early. Where all seeds overturn its decision,
// decides once more with all seeds from the overturned end on. They can overturn the other end,
// too.
std::optional<CapacitySearch::Bracket> CapacitySearch::ConfirmBracket(Bracket bracket) {
  for (bool all_seeds = false;; all_seeds = true) {
    while (!IsNarrow(bracket)) {
      const double middle = Midpoint(bracket);
      const bool holds = all_seeds ? HoldsForAll(middle) : Holds(middle);
      (holds ? bracket.low : bracket.high) = middle;
    }
    if (!HoldsForAll(bracket.low)) {
      if (bracket.low <= LowerEnd()) return HoldsNowhere();
      bracket = {LowerEnd(), bracket.low};
    } else if (HoldsForAll(bracket.high)) {
      if (bracket.high >= UpperEnd()) return HoldsEverywhere(UpperEnd());
      bracket = {bracket.high, UpperEnd()};
    } else {
      return bracket;
    }
  }
}

void CapacitySearch::SetValue(const Bracket& bracket) {
  CHECK(bracket.low < bracket.high);
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
  found_.root.value = found_.value;
  if (runs_.whole()) found_.value = bracket.low;
}

void CapacitySearch::FindValue(std::int64_t requests) {
  runs_.SetRequests(requests);
  ++doubling_;
  tests_.clear();
  std::optional<Bracket> bracket = FirstBracket();
  if (bracket) bracket = ConfirmBracket(*bracket);
  has_value_ = true;
  found_.limiting.clear();
  found_.root = {};
  found_.by_seed = kNoInterval;
  if (bracket) {
    bracket_ = *bracket;
    found_.verdict = Capacity::Verdict::kFound;
    SetValue(bracket_);
    LeaveSeedsOut();
  }
  found_.requests = runs_.FewestArrived(LastRun());
}

// The value at which the runs of the answer were made.
double CapacitySearch::LastRun() const {
  if (found_.verdict == Capacity::Verdict::kFound) return bracket_.low;
  return found_.verdict == Capacity::Verdict::kHoldsNowhere ? LowerEnd() : UpperEnd();
}

bool CapacitySearch::HasAllRequests() const {
  return runs_.requests() > 0 && found_.requests >= runs_.requests();
}

void CapacitySearch::LeaveSeedsOut() {
  const double root = found_.root.value;
  const double step = StepOf(kChordShare * std::abs(root));
  Chord chord{.low = std::max(LowerEnd(), runs_.Rounded(root - step)),
              .high = std::min(UpperEnd(), runs_.Rounded(root + step)),
              .at_low = {},
              .at_high = {}};
  (void)HoldsForAll(chord.low);
  (void)HoldsForAll(chord.high);
  for (std::size_t seed = 0; seed < question_.replications; ++seed) {
    chord.at_low.push_back(RoomOf(runs_.Made(chord.low, seed)));
    chord.at_high.push_back(RoomOf(runs_.Made(chord.high, seed)));
  }
  found_.root = WithoutEachSeed(root, chord);
  found_.by_seed = MeanInterval(PseudoValues(found_.root), question_.confidence);
}

// Moves away from the value until the test decides as wanted, or an end is reached.
void CapacitySearch::FindEnd(double step, Sign wanted) {
  for (int i = 0; i < kEndProbesMax; ++i, step *= 2) {
    const bool down = wanted == Sign::kPositive;
    const double x =
        std::clamp(runs_.Rounded(found_.value + (down ? -step : step)), LowerEnd(), UpperEnd());
    Holds(x);
    const auto probe = std::ranges::find_if(found_.probes, [&](const CapacityProbe& one) {
      return one.x == x && one.doubling == doubling_;
    });
    CHECK(probe != found_.probes.end());
    if (probe->verdict == wanted || x == (down ? LowerEnd() : UpperEnd())) return;
  }
}

void CapacitySearch::FindInterval() {
  found_.low = kNowhere;
  found_.high = kNowhere;
  if (found_.verdict == Capacity::Verdict::kFound) {
    const double half = (found_.by_seed.high - found_.by_seed.low) / 2;
    const double step = std::max(std::isfinite(half) ? half : 0, SmallestStep());
    FindEnd(step, Sign::kPositive);
    FindEnd(step, Sign::kNegative);
  }
  for (const CapacityProbe& probe : found_.probes) {
    if (probe.doubling != doubling_) continue;
    if (probe.verdict == Sign::kPositive && !(found_.low >= probe.x)) found_.low = probe.x;
    if (probe.verdict == Sign::kNegative && !(found_.high <= probe.x)) found_.high = probe.x;
  }
  found_.monotone = !(found_.low > found_.high);
}

}  // namespace twin::run
