// Distributions of pauses and delays.
#pragma once

#include <cstdint>

#include "core/random.h"
#include "core/time.h"

namespace twin {

struct DurationDistribution {
  enum class Kind : std::uint8_t {
    kConstant,     // mean
    kExponential,  // mean
    kLogNormal,    // mean, and the coefficient of variation cv
  };
  Kind kind = Kind::kConstant;
  Duration mean{0};
  double cv = 1;

  bool operator==(const DurationDistribution&) const = default;
};

// A draw, cut at 126 years. REQUIRES: mean and cv are not negative.
Duration DrawDuration(const DurationDistribution& config, Random& random);

}  // namespace twin
