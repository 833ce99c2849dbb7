// The rates at which a system served its load, and whether it was offered more than it could serve.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "run/record/metric_writer.h"
#include "run/record/request_metrics.h"
#include "run/record/run_listener.h"
#include "run/record/summary.h"

namespace twin {

enum class Overload : std::uint8_t { kNo, kUndecided, kYes };

// The trend of a backlog at equally spaced times, `spacing_s` seconds apart, of a system to which
// `rate` requests per second arrive.
//
// Idea: above capacity the backlog grows like t, at capacity only like sqrt(t), as a random walk.
// With z = slope T / (s sqrt(T)), slope by least squares and s^2 the variance of the increments per
// second: overloaded if z > 3 and the slope exceeds 1 % of the rate. Not overloaded if not even
// z > 1 and such a slope are found, and an overload of 5 % would have been: either 5 % of the rate
// exceed the slope by 2.33 of its standard deviations, s / sqrt(T), or `has_room` says that the
// backlog is short. Else undecided. At exactly capacity z has a standard deviation of 1.1.
// REQUIRES: at least three values.
Overload EstimateTrend(std::span<const double> backlog, double spacing_s, double rate,
                       bool has_room);

// Watches arrivals and departures. The time in which the system fills does not count: the first
// fifth of the time, or twice the time that requests of that fifth took, at most half of the time.
//
// Steady rates are over the loaded time: from when the system has filled, or the first measured
// request arrives, until the last measured request has arrived and has first been scheduled. After
// that nothing waits, and the system drains. A completed request counts in proportion to the part
// of its service, from when it was first scheduled to its end, that lies in this time; so do its
// tokens. Which requests happen to end at the edges, and how long they are, then matters little.
//
// The verdict is EstimateTrend's until the last arrival. There is room if, in the second half of
// the time up to the last arrival, the mean of the requests in the system, with those that wait
// counted twice, is below 2.5 % of all arrivals: at an overload of 5 %, the queue of one server
// that starts empty, a random walk reflected at zero, is as short in at most one run of 20,
// whatever its variance. The verdict is undecided with fewer than 20 arrivals or 10 windows after
// the filling; and rather than yes where the filling takes half of the time or more, and fewer
// requests wait than run at the last arrival.
//
// Clients that give up, and a full system that turns them away, keep the backlog of an overloaded
// system short. Requests count as turned away by load if they are rejected as `overloaded`, or
// cancelled after they have waited for at least half of their time. If significantly more than 10 %
// of the arrivals are turned away, the answer is yes. If significantly more than 1 % are turned
// away, or cancelled for any reason, it is undecided rather than no. Memory: constant. Cost:
// constant per request.
class OverloadMeter : public RunListener {
 public:
  // Quantities that have a steady rate: all completed requests, those that keep every bound of the
  // goal, and output tokens, and prompt and output tokens, of all of them.
  enum Quantity : std::uint8_t { kRequests, kGoodRequests, kOutputTokens, kTokens, kQuantities };

  explicit OverloadMeter(const RequestMetrics::Config& config = {});

  [[nodiscard]] bool takes_streaks() const override { return true; }
  void OnArrived(TimePoint now, const RequestLife& life) override;
  void OnEnded(const RequestLife& life) override;

  [[nodiscard]] Overload verdict() const;
  // Requests per second from the first to the last arrival; NaN if there is no time between them.
  [[nodiscard]] double offered_rate() const;
  // Per second of the loaded time; NaN if there is none.
  [[nodiscard]] double SteadyRate(Quantity quantity) const;

  void Summarise(const MetricWriter& out) const;

 private:
  static constexpr std::size_t kBins = 2048;

  // Amounts that are spread evenly over spans of time, as their begins and ends: what has flowed
  // until t is rate * t - moment, summed over all that is before t.
  struct Flow {
    double rate = 0;    // per second
    double moment = 0;  // rate * the time of its change

    Flow& operator+=(const Flow& other);
  };
  struct Bin {
    std::int32_t arrivals = 0;
    std::int32_t starts = 0;          // requests that were first scheduled, or left unscheduled
    std::int32_t departures = 0;      // requests that left in any way
    std::int32_t ended_arrivals = 0;  // arrivals of this bin that have ended, without rejected ones
    double time_in_system = 0;        // sum over the ended arrivals, in seconds
    std::array<Flow, kQuantities> served;

    Bin& operator+=(const Bin& other);
  };

  Bin& BinOf(TimePoint time);
  void Serve(const RequestLife& life);
  [[nodiscard]] double SecondsPerBin() const { return Seconds(width_); }
  // When the system had filled, in seconds, in a time that ends at `end`.
  [[nodiscard]] double FilledAt(TimePoint end) const;
  // Whether a count of arrivals exceeds a share of them by more than chance explains.
  [[nodiscard]] bool Exceeds(std::int64_t count, double share) const;
  [[nodiscard]] bool HasRoom() const;
  [[nodiscard]] Overload VerdictOfBacklog() const;

  RequestMetrics::Config config_;
  std::vector<Bin> bins_;
  Duration width_{1'000'000};  // width of a bin; doubled when a run gets longer
  std::int64_t arrived_ = 0;
  std::int64_t cancelled_ = 0;
  std::int64_t turned_away_ = 0;  // turned away by load
  TimePoint first_arrival_ = kTimeNever;
  TimePoint last_arrival_ = kTimeZero;
  TimePoint first_measured_ = kTimeNever;  // arrival
  TimePoint loaded_until_ = kTimeZero;
};

// One line for the user about a run whose summary says that it is saturated; empty otherwise.
std::string OverloadWarning(const Summary& summary);

}  // namespace twin
