// Quantiles: the only definition that this project uses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
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
inline double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return InterpolatedQuantile(static_cast<std::int64_t>(values.size()), q, [&](std::int64_t rank) {
    return values[static_cast<std::size_t>(rank)];
  });
}

}  // namespace twin
