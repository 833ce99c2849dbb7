#include "exec/profile/spread.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/check.h"
#include "core/statistics.h"

namespace twin::exec {

Spread SpreadOf(const std::vector<double>& values) {
  return {.median = Median(values),
          .p10 = Quantile(values, 0.1),
          .p90 = Quantile(values, 0.9),
          .count = static_cast<std::int64_t>(values.size())};
}

std::vector<double> MiddleWeights(const std::vector<double>& values) {
  CHECK(!values.empty());
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  const auto count = static_cast<double>(values.size());
  const double from = 0.1 * count;
  const double to = count - from;
  std::vector<double> weights(values.size());
  for (std::size_t place = 0; place < order.size(); ++place) {
    const auto begin = static_cast<double>(place);
    const double within = std::min(begin + 1, to) - std::max(begin, from);
    weights[order[place]] = std::max(within, 0.0) / (to - from);
  }
  return weights;
}

double WeightedMean(const std::vector<double>& values, const std::vector<double>& weights) {
  CHECK(values.size() == weights.size());
  return std::inner_product(values.begin(), values.end(), weights.begin(), 0.0);
}

bool IsEnough(const RepeatRule& rule, const std::vector<double>& values, double spent_s) {
  const auto count = static_cast<std::int64_t>(values.size());
  if (count == 0) return false;
  if (count >= rule.count_max || spent_s >= rule.seconds_max) return true;
  if (count < rule.count_min) return false;
  const double half_range = (Quantile(values, 0.75) - Quantile(values, 0.25)) / 2;
  return half_range / std::sqrt(static_cast<double>(count)) <= rule.relative_error * Median(values);
}

}  // namespace twin::exec
