// The time types of all layers: int64 nanoseconds since the start of the run.
#pragma once

#include <chrono>
#include <cstdint>

namespace twin {

// The run's clock; zero is the start of the run. It has no now(): worlds pass the current time as
// an argument, so that decision code cannot read a clock.
struct EngineClock {
  using rep = std::int64_t;
  using period = std::nano;
  using duration = std::chrono::duration<rep, period>;
  using time_point = std::chrono::time_point<EngineClock>;
  static constexpr bool is_steady = true;
};

using Duration = EngineClock::duration;
using TimePoint = EngineClock::time_point;

constexpr TimePoint kTimeZero{};
constexpr TimePoint kTimeNever = TimePoint::max();

// Nanoseconds since the start of the run.
constexpr std::int64_t Nanoseconds(TimePoint t) { return t.time_since_epoch().count(); }

// Conversions for the boundaries: CSV, configurations, cost models.
constexpr double Seconds(Duration d) { return static_cast<double>(d.count()) * 1e-9; }
constexpr double Seconds(TimePoint t) { return Seconds(t.time_since_epoch()); }
constexpr double Milliseconds(Duration d) { return static_cast<double>(d.count()) * 1e-6; }

// The only two conversions from a floating-point time, on which further ones build. Neither can
// overflow: times outside the range of Duration (+- 292 years) are clamped to it, and NaN gives
// Duration::max().

// Truncates to whole nanoseconds.
constexpr Duration DurationFromNanoseconds(double ns) {
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (!(ns < kLimit)) return Duration::max();
  if (ns < -kLimit) return Duration::min();
  return Duration{static_cast<std::int64_t>(ns)};
}

// Rounds to the nearest nanosecond.
constexpr Duration DurationFromSeconds(double seconds) {
  const double ns = seconds * 1e9;
  return DurationFromNanoseconds(ns < 0 ? ns - 0.5 : ns + 0.5);
}

}  // namespace twin
