// Statistics of a list of values: the one definition of each in this project. A Sketch (sketch.h)
// gives them for more values than fit in memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/check.h"

namespace twin {

// The value at `position`, counted from 0: linear between the order statistics that
// `value_at(rank)` returns, of which the first has the rank 0.
template <class ValueAt>
double ValueAtPosition(double position, const ValueAt& value_at) {
  const auto rank = static_cast<std::int64_t>(position);
  const double low = value_at(rank);
  const double share = position - static_cast<double>(rank);
  return share == 0 ? low : low + (value_at(rank + 1) - low) * share;
}

// The q-quantile of `count` values: linear interpolation between order statistics at position
// (count - 1) q, numpy's default ("type 7" of Hyndman and Fan, "Sample Quantiles in Statistical
// Packages", 1996). `value_at(rank)` returns the order statistic of `rank`, counted from 0.
// REQUIRES: count >= 1, 0 <= q <= 1.
template <class ValueAt>
double InterpolatedQuantile(std::int64_t count, double q, const ValueAt& value_at) {
  CHECK(count >= 1 && q >= 0 && q <= 1);
  return ValueAtPosition(static_cast<double>(count - 1) * q, value_at);
}

// The q-quantile of `values`, which may be in any order. Cost: sorts a copy.
// REQUIRES: values is not empty, 0 <= q <= 1.
double Quantile(std::vector<double> values, double q);
// 0 if `values` is empty.
double QuantileOrZero(std::vector<double> values, double q);
// The 0.5-quantile: the mean of the two middle values of an even number. REQUIRES: as Quantile.
double Median(std::vector<double> values);

// Holds one more value from where the values came, in 90 % of all cases.
struct PredictionInterval {
  double low = 0;
  double high = 0;
};
// The fewest values that have such an interval: their smallest and largest are its ends.
inline constexpr int kValuesOfPrediction = 19;
// The order statistics at the positions (n + 1) 0.05 and (n + 1) 0.95, counted from 1, linear
// between two ("type 6" of Hyndman and Fan): one more of n + 1 equally likely values falls below
// the k-th of the others with the probability k / (n + 1), whatever the distribution (Hahn, Meeker,
// Statistical Intervals, 1991, chapter 5).
// Easy to get wrong: the quantiles 0.05 and 0.95 of the values themselves (Quantile) lie further
// inside. Of 20 values, they hold one more value in 81 % of all cases.
// REQUIRES: at least kValuesOfPrediction values.
PredictionInterval PredictionIntervalOf(std::vector<double> values);

// The arithmetic mean; NaN of no values.
double Mean(std::span<const double> values);
// The sum of squared deviations from the mean, divided by n - 1; NaN below two values.
double SampleVariance(std::span<const double> values);

}  // namespace twin
