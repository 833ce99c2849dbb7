// Statistics of a list of values: the one definition of each in this project. A Sketch (sketch.h)
// gives them for more values than fit in memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/check.h"

namespace twin {

// The q-quantile of `count` values: linear interpolation between order statistics at position
// (count - 1) q, numpy's default ("type 7" of Hyndman and Fan, "Sample Quantiles in Statistical
// Packages", 1996). `value_at(rank)` returns the order statistic of `rank`, counted from 0.
// REQUIRES: count >= 1, 0 <= q <= 1.
template <class ValueAt>
double InterpolatedQuantile(std::int64_t count, double q, const ValueAt& value_at) {
  CHECK(count >= 1 && q >= 0 && q <= 1);
  const double position = static_cast<double>(count - 1) * q;
  const auto rank = static_cast<std::int64_t>(position);
  const double low = value_at(rank);
  const double share = position - static_cast<double>(rank);
  return share == 0 ? low : low + (value_at(rank + 1) - low) * share;
}

// The q-quantile of `values`, which may be in any order. Cost: sorts a copy.
// REQUIRES: values is not empty, 0 <= q <= 1.
double Quantile(std::vector<double> values, double q);
// 0 if `values` is empty.
double QuantileOrZero(std::vector<double> values, double q);
// The 0.5-quantile: the mean of the two middle values of an even number. REQUIRES: as Quantile.
double Median(std::vector<double> values);

// The arithmetic mean; NaN of no values.
double Mean(std::span<const double> values);
// The sum of squared deviations from the mean, divided by n - 1; NaN below two values.
double SampleVariance(std::span<const double> values);

}  // namespace twin
