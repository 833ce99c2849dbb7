// How far chance moves the value of a setting at which the mean over seeds crosses a bound.
//
// Idea: the value is a root of a mean, and not a mean of roots. A root of one seed lies too high on
// average, because latencies are convex in the load: with runs of 600 requests by 3 to 4 %. The
// jackknife leaves out one seed at a time. The n roots t_without give pseudo-values,
// t + (n - 1) (their mean - t_without), which spread as n independent values whose mean is the root
// t (Miller, Biometrika 61, 1974; Efron, Tibshirani, An Introduction to the Bootstrap, 1993,
// chapter 11). Intervals and paired comparisons take them as values of seeds.
//
// Easy to get wrong: a pseudo-value is not the root of its seed. The roots have to be smooth in the
// seeds: a line through two values that lie apart serves, and one through the ends of a narrow
// bracket, whose slope is noise, does not. The jackknife's correction of bias, n t - (n - 1) times
// their mean, needs the curvature, which a line lacks: it would add more bias than it removes.
#pragma once

#include <limits>
#include <vector>

#include "run/many/output_statistics.h"

namespace twin::run {

inline constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
inline constexpr Interval kNoInterval{kNoNumber, kNoNumber, kNoNumber, 0};

// Where a mean over seeds crosses a bound, and where it does without each seed.
struct RootOfMean {
  double value = 0;
  std::vector<double> without;  // by seed
};

// The mean of values as such a root: its pseudo-values are the values. REQUIRES: at least two.
RootOfMean MeanOf(std::span<const double> values);

// By seed; their mean is the root. REQUIRES: at least two seeds.
std::vector<double> PseudoValues(const RootOfMean& root);

// From a root to such runs, as a share of the root: a mean latency changes over this distance by
// several times its own noise, and is still nearly straight.
inline constexpr double kChordShare = 0.04;

// Runs of all seeds at two values of a setting, one on each side of a root. Rooms: how far a metric
// is from its bound, negative where the bound is broken; by seed, then bound.
struct Chord {
  double low = 0;
  double high = 0;  // above `low`
  std::vector<std::vector<double>> at_low;
  std::vector<std::vector<double>> at_high;
};

// The root and its values without each seed. The smallest root of all bounds counts; each moves
// with the seed along the line of its mean through both ends. The values are NaN if a room is not
// finite, or no mean falls from `low` to `high`.
RootOfMean WithoutEachSeed(double root, const Chord& chord);

// a - b from the pseudo-values of both, and the ratio from those of its logarithm. The k-th seeds
// belong together. REQUIRES: equal numbers of seeds, at least two.
PairedComparison CompareRoots(const RootOfMean& a, const RootOfMean& b, double level);

// Any function of the root, such as a price for the load: its value and those without each seed.
template <class Function>
RootOfMean Mapped(RootOfMean root, const Function& function) {
  root.value = function(root.value);
  for (double& value : root.without) value = function(value);
  return root;
}

}  // namespace twin::run
