// Draws from an IntegerDistribution.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/random.h"
#include "traces/distribution_config.h"

namespace twin {

class IntegerSampler {
 public:
  // REQUIRES: a valid config, not kNone. Throws InputError if its file is bad.
  explicit IntegerSampler(const IntegerDistribution& config);

  std::int32_t Draw(Random& random) const;

 private:
  [[nodiscard]] std::int32_t Clip(double x) const;

  IntegerDistribution::Kind kind_;
  std::int32_t low_;
  std::int32_t high_;
  double mu_ = 0;
  double sigma_ = 0;
  std::optional<ZipfDistribution> zipf_;
  std::optional<QuantileDistribution> quantiles_;
};

}  // namespace twin
