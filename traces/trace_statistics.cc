#include "traces/trace_statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/check.h"

namespace twin {

void CountHistogram::Add(std::int64_t value) {
  CHECK(value >= 0);
  ++count_;
  max_ = std::max(max_, value);
  const auto x = static_cast<double>(value);
  const double deviation = x - mean_;
  mean_ += deviation / static_cast<double>(count_);
  squares_ += deviation * (x - mean_);
  if (value < kExactMax) {
    const auto slot = static_cast<std::size_t>(value);
    if (slot >= exact_.size()) exact_.resize(std::bit_ceil(slot + 1));
    ++exact_[slot];
    return;
  }
  constexpr int kSignificantBits = 11;  // a bucket spans at most 2^-10 of its value
  const int shift =
      static_cast<int>(std::bit_width(static_cast<std::uint64_t>(value))) - kSignificantBits;
  ++coarse_[(value >> shift) << shift];
}

double CountHistogram::mean() const { return mean_; }

double CountHistogram::variance() const {
  return count_ == 0 ? 0 : squares_ / static_cast<double>(count_);
}

double CountHistogram::ValueAt(std::int64_t rank) const {
  if (rank == count_ - 1) return static_cast<double>(max_);
  for (std::size_t value = 0; value < exact_.size(); ++value) {
    if (rank < exact_[value]) return static_cast<double>(value);
    rank -= exact_[value];
  }
  for (const auto& [low, count] : coarse_) {
    if (rank < count) return static_cast<double>(low);
    rank -= count;
  }
  return static_cast<double>(max_);
}

double CountHistogram::Quantile(double p) const {
  CHECK(count_ > 0);
  const double position = p * static_cast<double>(count_ - 1);
  const auto rank = static_cast<std::int64_t>(position);
  const double low = ValueAt(rank);
  const double part = position - static_cast<double>(rank);
  return part == 0 ? low : low + part * (ValueAt(rank + 1) - low);
}

Percentiles CountHistogram::Summarise() const {
  return {mean(), Quantile(0.5), Quantile(0.9), Quantile(0.99), static_cast<double>(max_)};
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
  if (current_ < kWindowsMin) return std::nullopt;  // the one being filled is not whole
  const auto windows = static_cast<double>(current_);
  const double mean = sum_ / windows;
  return (squares_ / windows - mean * mean) / mean;
}

void TraceStatistics::Add(const TracedRequest& request) {
  AddArrival(request.arrival);
  prompts_.Add(request.prompt_tokens);
  outputs_.Add(request.output_tokens);
  tenants_.insert(request.tenant);
  if (!request.prefix_chunks.empty()) AddContent(request);
}

void TraceStatistics::AddArrival(TimePoint arrival) {
  if (requests() == 0) {
    first_ = arrival;
  } else {
    gaps_ns_.Add((arrival - last_).count());
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
  return gaps_ns_.mean() > 0 ? std::sqrt(gaps_ns_.variance()) / gaps_ns_.mean() : 0;
}

double TraceStatistics::hit_token_share() const {
  const double tokens = prompts_.mean() * static_cast<double>(requests());
  return tokens > 0 ? static_cast<double>(hit_tokens_) / tokens : 0;
}

double TraceStatistics::hit_request_share() const {
  return requests() > 0 ? static_cast<double>(hit_requests_) / static_cast<double>(requests()) : 0;
}

}  // namespace twin
