// Open-loop arrivals: the arrival times of a point process, in order.
#pragma once

#include <optional>

#include "core/random.h"
#include "traces/distribution_config.h"

namespace twin {

// A renewal process draws its first gap from time zero. No memory is allocated after construction.
class ArrivalProcess {
 public:
  // REQUIRES: a valid config of a kind other than kNone and kClosedLoop.
  ArrivalProcess(const ArrivalConfig& config, const Random& random);

  // The next arrival. Empty if the rate has reached zero (a ramp to 0); kTimeNever beyond
  // kArrivalMax.
  std::optional<TimePoint> Next();

 private:
  double DrawGapSeconds();
  std::optional<TimePoint> NextOfRamp();

  ArrivalConfig config_;
  Random random_;
  double shape_ = 1;  // shape parameter of gamma and Weibull gaps
  double scale_ = 1;  // seconds
  double ramp_mass_ = 0;
  TimePoint last_ = kTimeZero;
};

// The Weibull shape whose coefficient of variation is cv, between 0.01 and 100.
double FindWeibullShape(double cv);

}  // namespace twin
