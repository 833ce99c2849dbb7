// Time as every layer writes it: int64 nanoseconds on a clock that cannot be read.
#pragma once

#include <chrono>
#include <cstdint>

namespace twin {

// The run's clock. It has no now(): a world hands the current time to whoever may know it, so code
// that decides cannot ask. Zero is the start of the run.
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

// Conversions for edges (CSV, cost models); `seconds` is rounded to the nearest nanosecond.
constexpr double Seconds(Duration d) { return static_cast<double>(d.count()) * 1e-9; }
constexpr double Seconds(TimePoint t) { return Seconds(t.time_since_epoch()); }
constexpr double Milliseconds(Duration d) { return static_cast<double>(d.count()) * 1e-6; }
constexpr Duration DurationFromSeconds(double seconds) {
  const double ns = seconds * 1e9;
  return Duration{static_cast<std::int64_t>(ns < 0 ? ns - 0.5 : ns + 0.5)};
}

}  // namespace twin
