// Latencies, throughput and goodput of a group of requests, as their clients see them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/service_goal.h"
#include "core/sketch.h"
#include "run/record/metric_writer.h"
#include "run/record/run_listener.h"

namespace twin {

// Whether the request keeps every bound of the goal. A request with one token has no TPOT and keeps
// every bound on it. REQUIRES: the request completed.
bool Keeps(const ServiceGoal& goal, const RequestLife& life);

// The time over which rates are taken: from the first arrival of a measured request until the last
// measured request has left, with an answer or without. Every request that completes in this time
// counts, measured or not: the server worked on all of them.
class RateWindow {
 public:
  void Arrive(const RequestLife& life);
  // REQUIRES: the request arrived and has ended.
  void End(const RequestLife& life);
  // The window at the end of a run: requests that have not left extend it to `now`.
  [[nodiscard]] RateWindow Until(TimePoint now) const;

  // 0 before the first end of a measured request.
  [[nodiscard]] double seconds() const { return end_ > begin_ ? Seconds(end_ - begin_) : 0; }
  [[nodiscard]] TimePoint begin() const { return begin_; }
  [[nodiscard]] TimePoint end() const { return end_; }
  // Whether the request completed after the begin. REQUIRES: it completed.
  [[nodiscard]] bool BeginsBefore(const RequestLife& life) const {
    return life.measured || life.last_received() > begin_;
  }

 private:
  TimePoint begin_ = kTimeNever;
  TimePoint end_ = TimePoint::min();
  std::int64_t open_ = 0;  // measured requests that have not left
};

// A number that sums up the values of a latency.
struct Statistic {
  std::string_view name;
  std::string_view what;
  // Largest share of clients without an answer at which a bound on the statistic can hold. A p99
  // promises an answer to 99 % of the clients; a mean is treated like a p99.
  double unanswered_max;
  double (*of)(const Sketch& sketch);
};
std::span<const Statistic> Statistics();

// Let a = arrival, s = first time scheduled, f = first token, c = completion, n = output tokens.
//
//   queue = s - a    ttft = f - a    e2el = c - a    normalized = (c - a) / n
//   tpot = (c - f) / (n - 1), undefined for n = 1    longest ITL: the largest ITL of a request
//
// f and c are the times at which the client has the tokens. With a boundary between client and
// engine, queue = s - r (r: the engine was told), and the engine's side is reported too:
//
//   engine_ttft = f' - r   engine_e2el = c' - r   request_delay = r - a   response_delay = f - f'
//
// A client with a limit of its own holds requests back for a time w before it sends them; then:
//
//   client_queue_time = w   e2el_including_client_queue = w + c - a
//
// Rejected and cancelled requests are counted, appear in no latency and miss the goal. Rates are
// completions in the RateWindow by its length. Where answers come in one piece (streamed is false),
// no client can measure a time between tokens: tpot, ITLs and a goal that bounds tpot are
// undefined.
class RequestMetrics {
 public:
  struct Config {
    ServiceGoal goal = {};
    bool boundary = false;
    bool client_waits = false;  // clients have a limit of their own
    bool streamed = true;

    // `value` of a metric of the goal; NaN if no client can tell whether the goal is kept.
    [[nodiscard]] double Judged(double value) const {
      return streamed || !goal.tpot ? value : std::numeric_limits<double>::quiet_NaN();
    }
  };

  explicit RequestMetrics(const Config& config) : config_(config) {}

  // A measured request arrived.
  void Arrive() { ++counts_[kArrived]; }
  // A request ended. Measured requests add to everything, other requests to the rates only.
  // `window` is the run's, and has taken this end already. REQUIRES: the request has ended.
  void End(const RequestLife& life, const RateWindow& window);

  // `count` tokens of measured requests came with an ITL of `gap`.
  void AddGaps(Duration gap, std::int64_t count) { latencies_[kItl].Insert(gap.count(), count); }

  // Adds the requests of another group of the same goal.
  void Merge(const RequestMetrics& other, const RateWindow& window);

  [[nodiscard]] std::int64_t arrived() const { return counts_[kArrived]; }

  // Adds all metrics. All but the ITLs, which pool the tokens of all requests, have the traits
  // kByTenant and kByGroup.
  void Summarise(const MetricWriter& out, const RateWindow& window) const;

  // A latency that has a key for each statistic, STATISTIC_NAME_ms.
  struct LatencyRow {
    std::string_view name;
    std::string_view what;
    std::string_view formula;
    bool Config::*only = nullptr;  // reported only where this is set
    bool by_tenant = true;         // reported for tenants and groups, too
  };
  static std::span<const LatencyRow> Latencies();

 private:
  enum Count : std::uint8_t {
    kArrived,
    kCompleted,  // got their whole output; this and the next three: also counted in the window
    kGood,
    kInputTokens,
    kOutputTokens,
    kEnded,
    kRejected,
    kRejectedTooLong,  // this and the next two: by RejectReason
    kRejectedTooLarge,
    kRejectedOverloaded,
    kCancelled,
    kCutOutputs,
    kCachedTokens,
    kCountCount,
  };
  struct Counts : std::array<std::int64_t, kCountCount> {
    Counts& operator+=(const Counts& other);
  };

  // The latencies that are collected. First those of Latencies(), in its order.
  enum Latency : std::uint8_t {
    kTtft,
    kTpot,
    kItl,
    kE2el,
    kQueue,
    kLongestItl,
    kEngineTtft,  // this and the next three: with a boundary only
    kEngineE2el,
    kRequestDelay,
    kResponseDelay,
    kClientQueueTime,  // this and the next one: with waits of clients only
    kE2elIncludingClientQueue,
    kNormalized,
    kBurstTtft,  // TTFT of the requests that arrived together at the very first
    kLatencyCount,
  };

  void Insert(Latency latency, Duration value) { latencies_[latency].Insert(value.count()); }
  void EndMeasured(const RequestLife& life, const RateWindow& window);
  [[nodiscard]] double BurstShareOfTail() const;
  void SummariseCounts(const MetricWriter& out, const RateWindow& window) const;
  void SummariseRates(const MetricWriter& out, const RateWindow& window) const;
  void SummariseLatencies(const MetricWriter& out) const;
  void EndAtEngine(const RequestLife& life);
  [[nodiscard]] Counts InWindow(const RateWindow& window) const;

  Config config_;
  Counts counts_{};  // of measured requests
  Counts in_window_{};
  // Completions after window_end_, the end of the window so far; a later end takes them in.
  Counts behind_window_{};
  TimePoint window_end_ = TimePoint::min();
  std::array<Sketch, kLatencyCount> latencies_;  // by Latency
};

// The key of a statistic of a latency.
std::string LatencyKey(const Statistic& statistic, const RequestMetrics::LatencyRow& latency);

}  // namespace twin
