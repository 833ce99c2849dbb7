#include "traces/trace_statistics.h"

#include <algorithm>
#include <cmath>

namespace twin {

Percentiles ComputePercentiles(const Sketch& sketch) {
  return {sketch.mean(), sketch.Quantile(0.5), sketch.Quantile(0.9), sketch.Quantile(0.99),
          sketch.maximum()};
}

void DispersionIndex::Add(Duration since_first) {
  const std::int64_t index = since_first / window_;
  if (index > current_) {
    sum_ += in_current_;  // windows between the two are empty and add nothing
    squares_ += in_current_ * in_current_;
    in_current_ = 0;
    current_ = index;
  }
  ++in_current_;
}

std::optional<double> DispersionIndex::value() const {
  if (current_ < kWindowsMin) return std::nullopt;  // the window being filled does not count
  const auto windows = static_cast<double>(current_);
  const double mean = sum_ / windows;
  return (squares_ / windows - mean * mean) / mean;
}

void TraceStatistics::Add(const TracedRequest& request) {
  AddArrival(request.arrival);
  prompts_.Insert(request.prompt_tokens);
  outputs_.Insert(request.output_tokens);
  tenants_.insert(request.tenant);
  if (!request.prefix_chunks.empty()) AddContent(request);
}

void TraceStatistics::AddArrival(TimePoint arrival) {
  if (requests() == 0) {
    first_ = arrival;
  } else {
    gaps_ns_.Insert((arrival - last_).count());
  }
  last_ = arrival;
  for (DispersionIndex& index : dispersion_) index.Add(arrival - first_);
}

void TraceStatistics::AddContent(const TracedRequest& request) {
  has_content_ = true;
  std::int64_t hits = 0;
  bool hitting = true;
  for (const std::uint64_t chunk : request.prefix_chunks) {
    const bool is_new = seen_chunks_.insert(chunk).second;
    hitting = hitting && !is_new;
    hits += hitting ? 1 : 0;
  }
  hit_tokens_ += std::min<std::int64_t>(hits * request.prefix_chunk_tokens, request.prompt_tokens);
  hit_requests_ += hits > 0 ? 1 : 0;
}

double TraceStatistics::rate() const {
  return duration() > Duration::zero() ? static_cast<double>(requests()) / Seconds(duration()) : 0;
}

double TraceStatistics::gap_cv() const {
  return gaps_ns_.mean() > 0 ? gaps_ns_.deviation() / gaps_ns_.mean() : 0;
}

double TraceStatistics::hit_token_share() const {
  const double tokens = prompts_.sum();
  return tokens > 0 ? static_cast<double>(hit_tokens_) / tokens : 0;
}

double TraceStatistics::hit_request_share() const {
  return requests() > 0 ? static_cast<double>(hit_requests_) / static_cast<double>(requests()) : 0;
}

}  // namespace twin
