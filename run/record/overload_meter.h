// Whether a run was offered more than the system could serve.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "run/record/run_listener.h"
#include "run/record/summary.h"

namespace twin {

enum class Overload : std::uint8_t { kNo, kUndecided, kYes };

// The trend of a backlog at equally spaced times, `spacing_s` seconds apart, of a system to which
// `rate` requests per second arrive.
//
// Idea: above capacity the backlog grows like t, at capacity only like sqrt(t), as a random walk.
// With z = slope T / (s sqrt(T)), slope by least squares and s^2 the variance of the increments per
// second: overloaded if z > 3 and the slope exceeds 1 % of the rate, undecided if 1 < z. At exactly
// capacity z has a standard deviation of 1.1.
// REQUIRES: at least three values.
Overload EstimateTrend(std::span<const double> backlog, double spacing_s, double rate);

// Watches arrivals and departures. The time after the last arrival does not count, nor does the
// time in which the system fills: the first tenth of the arrivals, or twice the time that requests
// of that tenth took, at most half of the time. With fewer than 20 arrivals or 10 windows in the
// rest, the answer is undecided.
//
// Clients that give up, and a full system that turns them away, keep the backlog of an overloaded
// system short. Requests count as turned away by load if they are rejected as `overloaded`, or
// cancelled after they have waited for at least half of their time. If significantly more than 10 %
// of the arrivals are turned away, the answer is yes. If significantly more than 1 % are turned
// away, or cancelled for any reason, it is undecided rather than no. Memory: constant. Cost:
// constant per request.
class OverloadMeter : public RunListener {
 public:
  OverloadMeter();

  [[nodiscard]] bool takes_streaks() const override { return true; }
  void OnArrived(TimePoint now, const RequestLife& life) override;
  void OnEnded(const RequestLife& life) override;

  [[nodiscard]] Overload verdict() const;
  // Requests per second from the first to the last arrival; NaN if there is no time between them.
  [[nodiscard]] double offered_rate() const;
  // Completions per second in the second half of that time.
  [[nodiscard]] double completed_rate() const;

  // Adds offered_rate, completed_rate and saturated ("yes", "no", "undecided").
  void Summarise(Summary& summary) const;

 private:
  static constexpr std::size_t kBins = 2048;

  struct Bin {
    std::int32_t arrivals = 0;
    std::int32_t departures = 0;      // requests that left in any way
    std::int32_t completions = 0;     // departures with a whole answer
    std::int32_t ended_arrivals = 0;  // arrivals of this bin that have ended, without rejected ones
    double time_in_system = 0;        // sum over the ended arrivals, in seconds
  };

  Bin& BinOf(TimePoint time);
  [[nodiscard]] double SecondsPerBin() const { return Seconds(width_); }
  // Completions before a time in seconds; a part of a bin counts in proportion.
  [[nodiscard]] double CompletionsUntil(double seconds) const;
  [[nodiscard]] double FilledAt() const;
  // Whether a count of arrivals exceeds a share of them by more than chance explains.
  [[nodiscard]] bool Exceeds(std::int64_t count, double share) const;
  [[nodiscard]] Overload VerdictOfBacklog() const;

  std::vector<Bin> bins_;
  Duration width_{1'000'000};  // width of a bin; doubled when a run gets longer
  std::int64_t arrived_ = 0;
  std::int64_t cancelled_ = 0;
  std::int64_t turned_away_ = 0;  // turned away by load
  TimePoint first_arrival_ = kTimeNever;
  TimePoint last_arrival_ = kTimeZero;
};

// One line for the user about a run whose summary says that it is saturated; empty otherwise.
std::string OverloadWarning(const Summary& summary);

}  // namespace twin
