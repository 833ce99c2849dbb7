// Configuration of distributions: lengths, pauses, arrivals.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/random.h"
#include "core/time.h"

namespace twin {

// Whole numbers >= 1: lengths in tokens, turns. Real draws are rounded, then clipped to min..max.
struct IntegerDistribution {
  enum class Kind : std::uint8_t {
    kNone,
    kFixed,      // value
    kUniform,    // min..max, both included
    kLogNormal,  // sigma, and mean or median (of the draws before clipping)
    kZipf,       // min + k - 1, P(k) proportional to k^-exponent, up to max
    kEmpirical,  // inverse CDF through (probabilities, values), or from the file at `path`: CSV
                 // with the header "probability,tokens"
  };
  Kind kind = Kind::kNone;
  std::int32_t value = 0;
  std::int32_t min = 1;
  std::int32_t max = (1 << 30) - 1;
  double mean = 0;
  double median = 0;
  double sigma = 0;
  double exponent = 1;
  std::vector<double> probabilities{};
  std::vector<double> values{};
  std::string path{};

  bool operator==(const IntegerDistribution&) const = default;
};

// Arrival process of requests, or of the first turns of sessions.
struct ArrivalConfig {
  enum class Kind : std::uint8_t {
    kNone,        // arrivals of the trace
    kPoisson,     // rate
    kGamma,       // renewal with gamma gaps: rate, cv
    kWeibull,     // renewal with Weibull gaps: rate, cv
    kConstant,    // one every 1/rate
    kRamp,        // Poisson; the rate changes linearly from rate to rate_to within ramp
    kClosedLoop,  // each of `users` sends, waits for completion, pauses for `think`, and repeats;
                  // they start evenly spread over `ramp`
    kAllAtOnce,   // at time zero
  };
  Kind kind = Kind::kNone;
  double rate = 0;     // per second
  double rate_to = 0;  // per second
  double cv = 1;       // coefficient of variation of the gaps
  Duration ramp{0};
  std::int32_t users = 0;
  DurationDistribution think{};

  bool operator==(const ArrivalConfig&) const = default;
};

}  // namespace twin
