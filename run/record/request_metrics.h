// Latencies, throughput and goodput of a group of requests, as their clients see them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/sketch.h"
#include "run/record/run_listener.h"
#include "run/record/summary.h"

namespace twin {

// Bounds that a request must keep to count as good, each inclusive. If none is set, no goodput is
// reported. A request with one token has no TPOT and keeps every bound on it.
struct ServiceGoal {
  std::optional<Duration> ttft;
  std::optional<Duration> tpot;
  std::optional<Duration> e2el;

  [[nodiscard]] bool any() const { return ttft || tpot || e2el; }
  // REQUIRES: the request completed.
  [[nodiscard]] bool Keeps(const RequestLife& life) const;
};

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

    [[nodiscard]] bool judges_goal() const { return streamed || !goal.tpot; }
  };

  explicit RequestMetrics(const Config& config) : config_(config) {}

  // A measured request arrived.
  void Arrive() { ++arrived_; }
  // A request ended. Measured requests add to everything, other requests to the rates only.
  // `window` is the run's, and has taken this end already. REQUIRES: the request has ended.
  void End(const RequestLife& life, const RateWindow& window);

  // Adds the requests of another group of the same goal.
  void Merge(const RequestMetrics& other, const RateWindow& window);

  [[nodiscard]] std::int64_t arrived() const { return arrived_; }

  // Counts, tokens, throughput, goodput; every name begins with `prefix`.
  void SummariseCounts(Summary& summary, std::string_view prefix, const RateWindow& window) const;
  // Statistics of the latencies. `itl` pools the ITLs of all requests; nullptr leaves it out.
  void SummariseLatencies(Summary& summary, std::string_view prefix, const Sketch* itl) const;

 private:
  // The latencies that are collected.
  enum Latency : std::uint8_t {
    kQueue,
    kTtft,
    kBurstTtft,  // TTFT of the requests that arrived together at the very first
    kTpot,
    kE2el,
    kNormalized,
    kLongestItl,
    kEngineTtft,  // this and the next three: with a boundary only
    kEngineE2el,
    kRequestDelay,
    kResponseDelay,
    kClientQueueTime,  // this and the next one: with waits of clients only
    kE2elIncludingClientQueue,
    kLatencyCount,
  };

  // Requests that got their whole output.
  struct Answers {
    std::int64_t completed = 0;
    std::int64_t good = 0;
    std::int64_t input_tokens = 0;
    std::int64_t output_tokens = 0;

    Answers& operator+=(const Answers& other);
  };

  void Insert(Latency latency, Duration value) { latencies_[latency].Insert(value.count()); }
  void EndMeasured(const RequestLife& life, const RateWindow& window);
  [[nodiscard]] double BurstShareOfTail() const;
  void EndAtEngine(const RequestLife& life);
  [[nodiscard]] Answers InWindow(const RateWindow& window) const;

  Config config_;
  std::int64_t arrived_ = 0;
  Answers measured_;
  Answers in_window_;
  // Completions after window_end_, the end of the window so far; a later end takes them in.
  Answers behind_window_;
  TimePoint window_end_ = TimePoint::min();
  std::array<std::int64_t, kRejectReasonNames.size()> rejected_{};  // by reason
  std::int64_t cancelled_ = 0;
  std::int64_t cut_outputs_ = 0;
  std::int64_t cached_tokens_ = 0;
  std::array<Sketch, kLatencyCount> latencies_;  // by Latency
};

}  // namespace twin
