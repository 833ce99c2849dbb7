#include "exec/profile/spread.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"

namespace twin::exec {

double Quantile(std::vector<double> values, double share) {
  CHECK(!values.empty() && share >= 0 && share <= 1);
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

Spread SpreadOf(const std::vector<double>& values) {
  return {.median = Quantile(values, 0.5),
          .p10 = Quantile(values, 0.1),
          .p90 = Quantile(values, 0.9),
          .count = static_cast<std::int64_t>(values.size())};
}

bool IsEnough(const RepeatRule& rule, const std::vector<double>& values, double spent_s) {
  const auto count = static_cast<std::int64_t>(values.size());
  if (count == 0) return false;
  if (count >= rule.count_max || spent_s >= rule.seconds_max) return true;
  if (count < rule.count_min) return false;
  const double half_range = (Quantile(values, 0.75) - Quantile(values, 0.25)) / 2;
  return half_range / std::sqrt(static_cast<double>(count)) <=
         rule.relative_error * Quantile(values, 0.5);
}

}  // namespace twin::exec
