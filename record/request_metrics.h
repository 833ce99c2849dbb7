// Latencies, throughput and goodput of a group of requests, as their clients see them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/sketch.h"
#include "record/run_listener.h"
#include "record/summary.h"

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

// Let a = arrival, s = first time scheduled, f = first token, c = completion, n = output tokens.
//
//   queue = s - a    ttft = f - a    e2el = c - a    normalized = (c - a) / n
//   tpot = (c - f) / (n - 1), undefined for n = 1    longest ITL = the longest gap of a request
//
// f and c are the times at which the client has the tokens. With a boundary between client and
// engine, queue = s - r (r: the engine was told), and there are also the engine's side:
//
//   engine_ttft = f' - r   engine_e2el = c' - r   request_delay = r - a   response_delay = f - f'
//
// Rejected and cancelled requests are counted, appear in no latency and miss the goal.
// Throughput is per second from the first arrival to the last completion.
class RequestMetrics {
 public:
  explicit RequestMetrics(const ServiceGoal& goal, bool boundary = false)
      : goal_(goal), boundary_(boundary) {}

  void Arrive(const RequestLife& life);
  // REQUIRES: the request arrived and has ended.
  void End(const RequestLife& life);

  // Adds the requests of another group of the same goal.
  void Merge(const RequestMetrics& other);

  [[nodiscard]] std::int64_t arrived() const { return arrived_; }
  [[nodiscard]] std::int64_t completed() const { return completed_; }
  // Last completion - first arrival in seconds; 0 before the first completion.
  [[nodiscard]] double duration_seconds() const;

  // Counts, tokens, throughput, goodput; every name begins with `prefix`.
  void SummariseCounts(Summary& summary, std::string_view prefix) const;
  // Statistics of the latencies. `itl` pools the gaps of all requests; nullptr leaves it out.
  void SummariseLatencies(Summary& summary, std::string_view prefix, const Sketch* itl) const;

 private:
  void EndAtEngine(const RequestLife& life);

  ServiceGoal goal_;
  bool boundary_;
  std::int64_t arrived_ = 0;
  std::int64_t completed_ = 0;
  std::array<std::int64_t, kRejectReasonNames.size()> rejected_{};  // by reason
  std::int64_t cancelled_ = 0;
  std::int64_t cut_outputs_ = 0;
  std::int64_t good_ = 0;
  std::int64_t input_tokens_ = 0;
  std::int64_t output_tokens_ = 0;
  std::int64_t cached_tokens_ = 0;
  TimePoint first_arrival_ = kTimeNever;
  TimePoint last_completion_ = TimePoint::min();
  Sketch queue_;
  Sketch ttft_;
  Sketch tpot_;
  Sketch e2el_;
  Sketch normalized_;
  Sketch longest_itl_;
  Sketch engine_ttft_;  // this and the next ones: with a boundary only
  Sketch engine_e2el_;
  Sketch request_delay_;
  Sketch response_delay_;
};

}  // namespace twin
