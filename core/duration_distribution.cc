#include "core/duration_distribution.h"

#include <algorithm>
#include <cmath>

namespace twin {

Duration DrawDuration(const DurationDistribution& config, Random& random) {
  constexpr double kLongestSeconds = 4e9;
  const double mean = Seconds(config.mean);
  double seconds = mean;
  if (config.kind == DurationDistribution::Kind::kExponential) seconds = random.Exponential(mean);
  if (config.kind == DurationDistribution::Kind::kLogNormal && mean > 0) {
    const double variance = std::log1p(config.cv * config.cv);
    seconds = random.LogNormal(std::log(mean) - variance / 2, std::sqrt(variance));
  }
  return DurationFromSeconds(std::min(seconds, kLongestSeconds));
}

}  // namespace twin
