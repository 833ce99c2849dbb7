// Statistics of a trace: rate, burstiness, lengths, shared prefixes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_set>
#include <vector>

#include "core/sketch.h"
#include "core/time.h"
#include "core/traced_request.h"

namespace twin {

// Mean and percentiles of one quantity, in its unit.
struct Percentiles {
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double max = 0;
};

// REQUIRES: the sketch is not empty.
Percentiles ComputePercentiles(const Sketch& sketch);

// Index of dispersion: variance over mean of the number of arrivals in adjacent windows. The first
// window begins at the first arrival; incomplete windows are ignored. Poisson arrivals have 1.
class DispersionIndex {
 public:
  explicit DispersionIndex(Duration window) : window_(window) {}
  void Add(Duration since_first);
  [[nodiscard]] Duration window() const { return window_; }
  // Empty if there are fewer than kWindowsMin windows.
  [[nodiscard]] std::optional<double> value() const;

 private:
  static constexpr std::int64_t kWindowsMin = 20;
  Duration window_;
  std::int64_t current_ = 0;  // index of the window that is being filled
  double in_current_ = 0;
  double sum_ = 0;
  double squares_ = 0;
};

// Add requests in order of arrival. Memory: bounded, except for one word per distinct prefix chunk.
class TraceStatistics {
 public:
  void Add(const TracedRequest& request);

  [[nodiscard]] std::int64_t requests() const { return prompts_.count(); }
  [[nodiscard]] Duration duration() const { return last_ - first_; }  // first to last arrival
  [[nodiscard]] double rate() const;  // requests over duration; 0 if the duration is 0
  // Coefficient of variation of the inter-arrival times; Poisson arrivals have 1.
  [[nodiscard]] double gap_cv() const;
  [[nodiscard]] const std::array<DispersionIndex, 3>& dispersion() const { return dispersion_; }
  [[nodiscard]] const Sketch& prompts() const { return prompts_; }
  [[nodiscard]] const Sketch& outputs() const { return outputs_; }
  [[nodiscard]] const Sketch& gaps_ns() const { return gaps_ns_; }
  [[nodiscard]] std::int64_t tenants() const { return static_cast<std::int64_t>(tenants_.size()); }
  [[nodiscard]] bool has_content() const { return has_content_; }
  // Share of all prompt tokens, and of all requests, that hit an infinite prefix cache.
  [[nodiscard]] double hit_token_share() const;
  [[nodiscard]] double hit_request_share() const;

 private:
  void AddArrival(TimePoint arrival);
  void AddContent(const TracedRequest& request);

  // Exact while fewer than 65,536 distinct values occur: all lengths of most traces.
  static constexpr std::size_t kExactEntries = 131'072;

  Sketch prompts_{kExactEntries};
  Sketch outputs_{kExactEntries};
  Sketch gaps_ns_{kExactEntries};
  TimePoint first_ = kTimeZero;
  TimePoint last_ = kTimeZero;
  std::array<DispersionIndex, 3> dispersion_{DispersionIndex(std::chrono::seconds(1)),
                                             DispersionIndex(std::chrono::seconds(10)),
                                             DispersionIndex(std::chrono::seconds(60))};
  std::unordered_set<std::uint64_t> seen_chunks_;  // membership alone, never walked
  std::unordered_set<std::uint32_t> tenants_;
  std::int64_t hit_tokens_ = 0;
  std::int64_t hit_requests_ = 0;
  bool has_content_ = false;
};

}  // namespace twin
