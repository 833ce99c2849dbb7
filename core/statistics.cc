#include "core/statistics.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

namespace twin {

double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return InterpolatedQuantile(static_cast<std::int64_t>(values.size()), q, [&](std::int64_t rank) {
    return values[static_cast<std::size_t>(rank)];
  });
}

double QuantileOrZero(std::vector<double> values, double q) {
  return values.empty() ? 0 : Quantile(std::move(values), q);
}

double Median(std::vector<double> values) { return Quantile(std::move(values), 0.5); }

PredictionInterval PredictionIntervalOf(std::vector<double> values) {
  CHECK(values.size() >= kValuesOfPrediction);
  std::sort(values.begin(), values.end());
  const auto value_at = [&](std::int64_t rank) { return values[static_cast<std::size_t>(rank)]; };
  const auto last = static_cast<double>(values.size() - 1);
  const double low = static_cast<double>(values.size() + 1) / (kValuesOfPrediction + 1) - 1;
  return {ValueAtPosition(low, value_at), ValueAtPosition(last - low, value_at)};
}

double Mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double SampleVariance(std::span<const double> values) {
  if (values.size() < 2) return std::numeric_limits<double>::quiet_NaN();
  const double mean = Mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return squares / static_cast<double>(values.size() - 1);
}

}  // namespace twin
