// Metrics of summary.json over the requests of a run, as their clients saw them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/time.h"
#include "traces/benchmark_run.h"

namespace twin::run {

// By key of summary.json, such as mean_ttft_ms. Holds only metrics that are defined.
using MetricValues = std::map<std::string, double>;

inline constexpr const char* kClientLatencies[] = {"ttft", "tpot", "itl", "e2el"};
inline constexpr const char* kClientStatistics[] = {"mean", "p50", "p90", "p99"};
inline constexpr const char* kThroughput = "request_throughput";

// The share of requests below a quantile, such as 0.99 of "p99"; 0.5 of all other statistics.
double ShareOf(std::string_view statistic);

// The least number of requests from which a statement about the statistic ("mean", "p99") can have
// a confidence of 95 %: the smallest n with max(q, 1 - q)^n <= 2.5 %, as an interval between order
// statistics needs; a mean is treated like a median (a test of signs).
std::int64_t RequestsNeeded(std::string_view statistic);

// Samples of the latencies, sorted once, so that each resampling costs a pass over them.
class ClientMetrics {
 public:
  // Takes the completed requests. TPOT is TpotMs().
  explicit ClientMetrics(std::span<const BenchmarkRequest> requests);

  // Each request counts once.
  [[nodiscard]] MetricValues Values() const;
  // Request i of the constructor's counts weights[i] times. REQUIRES: one weight per request.
  [[nodiscard]] MetricValues Values(std::span<const std::uint32_t> weights) const;
  // The number of requests that have the latency.
  [[nodiscard]] std::int64_t CountOf(std::string_view latency) const;

 private:
  struct Sample {
    double ms;
    std::uint32_t request;
  };
  struct Latency {
    std::string name;
    std::vector<Sample> samples;  // sorted
    std::int64_t requests = 0;
  };

  std::size_t requests_;
  std::vector<Latency> latencies_;
};

// The times of a run's first sending and last token.
struct ServingTime {
  TimePoint first;
  TimePoint last;  // after `first`

  [[nodiscard]] Duration length() const { return last - first; }
};
// nullopt if no request completed, or the end of one that did is not known.
std::optional<ServingTime> ServingTimeOf(std::span<const BenchmarkRequest> requests);

// Completed requests per second from the first sending to the last token; an empty map without
// these times.
MetricValues ThroughputOf(std::span<const BenchmarkRequest> requests);

// Whether there is a gap for each token but the first one. The clients of other runs count chunks.
bool CountsTokens(std::span<const BenchmarkRequest> requests);

}  // namespace twin::run
