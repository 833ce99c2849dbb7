#include "traces/arrival_process.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "traces/trace_limits.h"

namespace twin {
namespace {

// ln(cv^2 + 1) of a Weibull distribution: Gamma(1 + 2/k) / Gamma(1 + 1/k)^2.
double LogSecondMoment(double shape) {
  return std::lgamma(1 + 2 / shape) - 2 * std::lgamma(1 + 1 / shape);
}

}  // namespace

double FindWeibullShape(double cv) {
  const double target = std::log1p(cv * cv);
  double low = 0.05;  // cv about 3.7e5
  double high = 1000;
  for (int i = 0; i < 200; ++i) {
    const double middle = std::sqrt(low * high);
    (LogSecondMoment(middle) > target ? low : high) = middle;
  }
  return high;
}

ArrivalProcess::ArrivalProcess(const ArrivalConfig& config, const Random& random)
    : config_(config), random_(random) {
  CHECK(config.kind != ArrivalConfig::Kind::kNone);
  CHECK(config.kind != ArrivalConfig::Kind::kClosedLoop);
  if (config.kind == ArrivalConfig::Kind::kGamma) {
    shape_ = 1 / (config.cv * config.cv);
    scale_ = config.cv * config.cv / config.rate;
  } else if (config.kind == ArrivalConfig::Kind::kWeibull) {
    shape_ = FindWeibullShape(config.cv);
    scale_ = 1 / (config.rate * std::tgamma(1 + 1 / shape_));
  }
}

std::optional<TimePoint> ArrivalProcess::Next() {
  if (config_.kind == ArrivalConfig::Kind::kAllAtOnce) return kTimeZero;
  if (config_.kind == ArrivalConfig::Kind::kRamp) return NextOfRamp();
  const double gap = DrawGapSeconds();
  const Duration left = kArrivalMax - last_.time_since_epoch();
  if (gap >= Seconds(left)) return kTimeNever;
  return last_ += DurationFromSeconds(gap);
}

double ArrivalProcess::DrawGapSeconds() {
  switch (config_.kind) {
    case ArrivalConfig::Kind::kPoisson:
      return random_.Exponential(1 / config_.rate);
    case ArrivalConfig::Kind::kGamma:
      return random_.Gamma(shape_, scale_);
    case ArrivalConfig::Kind::kWeibull:
      return random_.Weibull(shape_, scale_);
    default:
      return 1 / config_.rate;
  }
}

// Time change of a unit Poisson process: the n-th arrival is the time t at which the integral of
// the rate, from * t + (to - from) * t^2 / (2 * ramp), reaches the n-th arrival of the unit
// process.
std::optional<TimePoint> ArrivalProcess::NextOfRamp() {
  ramp_mass_ += random_.Exponential(1);
  const double length = Seconds(config_.ramp);
  const double from = config_.rate;
  const double slope = (config_.rate_to - from) / length;
  const double mass_of_ramp = (from + config_.rate_to) / 2 * length;
  double seconds = 0;
  if (ramp_mass_ <= mass_of_ramp) {
    // 2c / (b + sqrt(b^2 + 4ac)): the form of the root without cancellation.
    const double root = std::sqrt(std::max(0.0, from * from + 2 * slope * ramp_mass_));
    if (ramp_mass_ > 0) seconds = 2 * ramp_mass_ / (from + root);
  } else {
    if (config_.rate_to == 0) return std::nullopt;
    seconds = length + (ramp_mass_ - mass_of_ramp) / config_.rate_to;
  }
  if (seconds >= Seconds(kArrivalMax)) return kTimeNever;
  return last_ = std::max(last_, TimePoint{DurationFromSeconds(seconds)});
}

}  // namespace twin
