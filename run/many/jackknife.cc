#include "run/many/jackknife.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "core/check.h"
#include "core/statistics.h"

namespace twin::run {
namespace {

using Rooms = std::vector<std::vector<double>>;

// By bound.
std::vector<double> SumOf(const Rooms& rooms) {
  std::vector<double> sums(rooms.front().size(), 0.0);
  for (const std::vector<double>& of_seed : rooms) {
    for (std::size_t b = 0; b < sums.size(); ++b) sums[b] += of_seed[b];
  }
  return sums;
}

// The smallest of the values at which the lines through both ends are 0; NaN if there is none.
double SmallestRoot(const Chord& chord, std::span<const double> low, std::span<const double> high) {
  double smallest = kNoNumber;
  for (std::size_t b = 0; b < low.size(); ++b) {
    if (!std::isfinite(low[b]) || !std::isfinite(high[b])) return kNoNumber;
    if (low[b] <= high[b]) continue;
    const double root = chord.low + (chord.high - chord.low) * low[b] / (low[b] - high[b]);
    if (!(root >= smallest)) smallest = root;
  }
  return smallest;
}

}  // namespace

RootOfMean MeanOf(std::span<const double> values) {
  CHECK(values.size() >= 2);
  const auto n = static_cast<double>(values.size());
  RootOfMean mean{.value = Mean(values), .without = {}};
  for (const double value : values) mean.without.push_back((n * mean.value - value) / (n - 1));
  return mean;
}

std::vector<double> PseudoValues(const RootOfMean& root) {
  CHECK(root.without.size() >= 2);
  const auto others = static_cast<double>(root.without.size() - 1);
  const double mean = Mean(root.without);
  std::vector<double> values;
  for (const double without : root.without) {
    values.push_back(root.value + others * (mean - without));
  }
  return values;
}

RootOfMean WithoutEachSeed(double root, const Chord& chord) {
  CHECK(chord.low < chord.high && chord.at_low.size() == chord.at_high.size());
  const std::vector<double> low = SumOf(chord.at_low);
  const std::vector<double> high = SumOf(chord.at_high);
  const double of_all = SmallestRoot(chord, low, high);
  RootOfMean found{.value = root, .without = {}};
  for (std::size_t seed = 0; seed < chord.at_low.size(); ++seed) {
    std::vector<double> others_low = low;
    std::vector<double> others_high = high;
    for (std::size_t b = 0; b < low.size(); ++b) {
      others_low[b] -= chord.at_low[seed][b];
      others_high[b] -= chord.at_high[seed][b];
    }
    found.without.push_back(root + SmallestRoot(chord, others_low, others_high) - of_all);
  }
  return found;
}

PairedComparison CompareRoots(const RootOfMean& a, const RootOfMean& b, double level) {
  CHECK(a.without.size() == b.without.size());
  PairedComparison compared = ComparePaired(PseudoValues(a), PseudoValues(b), level);
  RootOfMean logarithm{.value = std::log(a.value / b.value), .without = {}};
  for (std::size_t seed = 0; seed < a.without.size(); ++seed) {
    logarithm.without.push_back(std::log(a.without[seed] / b.without[seed]));
  }
  const Interval mean = MeanInterval(PseudoValues(logarithm), level);
  compared.ratio = {std::exp(mean.value), std::exp(mean.low), std::exp(mean.high), mean.n};
  return compared;
}

}  // namespace twin::run
