// A predicted time and how sure it is.
#pragma once

namespace twin::sim {

// A log-normal distribution: `seconds` is its median, `log_sd` the standard deviation of the
// natural logarithm, so that 0.05 means about 5 % either way.
struct Estimate {
  double seconds = 0;
  double log_sd = 0;
  // The part of log_sd that many calls of different sizes share; the rest averages out over a run.
  double lasting_sd = 0;
};

}  // namespace twin::sim
