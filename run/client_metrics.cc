#include "run/client_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/check.h"
#include "core/statistics.h"

namespace twin::run {
double ShareOf(std::string_view statistic) {
  if (statistic == "p90") return 0.9;
  return statistic == "p99" ? 0.99 : 0.5;
}

std::int64_t RequestsNeeded(std::string_view statistic) {
  return static_cast<std::int64_t>(std::ceil(std::log(0.025) / std::log(ShareOf(statistic))));
}

ClientMetrics::ClientMetrics(std::span<const BenchmarkRequest> requests)
    : requests_(requests.size()) {
  for (const char* name : kClientLatencies) latencies_.push_back({.name = name, .samples = {}});
  const auto add = [](Latency& latency, const std::optional<double>& ms, std::uint32_t request) {
    if (!ms) return;
    latency.samples.push_back({*ms, request});
    ++latency.requests;
  };
  const auto in_ms = [](const std::optional<Duration>& time) {
    return time ? std::optional(Milliseconds(*time)) : std::nullopt;
  };
  for (std::uint32_t i = 0; i < requests.size(); ++i) {
    const BenchmarkRequest& request = requests[i];
    if (!request.completed) continue;
    add(latencies_[0], in_ms(request.ttft), i);
    add(latencies_[1], TpotMs(request), i);
    for (const Duration gap : request.gaps) latencies_[2].samples.push_back({Milliseconds(gap), i});
    if (!request.gaps.empty()) ++latencies_[2].requests;
    add(latencies_[3], in_ms(request.e2e), i);
  }
  for (Latency& latency : latencies_) std::ranges::sort(latency.samples, {}, &Sample::ms);
}

MetricValues ClientMetrics::Values() const {
  const std::vector<std::uint32_t> once(requests_, 1);
  return Values(once);
}

MetricValues ClientMetrics::Values(std::span<const std::uint32_t> weights) const {
  CHECK(weights.size() == requests_);
  MetricValues values;
  for (const Latency& latency : latencies_) {
    double sum = 0;
    std::int64_t count = 0;
    for (const Sample& sample : latency.samples) {
      sum += sample.ms * weights[sample.request];
      count += weights[sample.request];
    }
    if (count == 0) continue;
    const auto key = [&](const char* statistic) {
      return fmt::format("{}_{}_ms", statistic, latency.name);
    };
    values[key("mean")] = sum / static_cast<double>(count);
    // Ranks mostly rise; the quantiles of a few requests ask for one again.
    std::int64_t before = 0;
    auto sample = latency.samples.begin();
    const auto at_rank = [&](std::int64_t rank) {
      if (rank < before) {
        before = 0;
        sample = latency.samples.begin();
      }
      while (before + weights[sample->request] <= rank) before += weights[(sample++)->request];
      return sample->ms;
    };
    for (const char* statistic : {"p50", "p90", "p99"}) {
      values[key(statistic)] = InterpolatedQuantile(count, ShareOf(statistic), at_rank);
    }
  }
  return values;
}

std::int64_t ClientMetrics::CountOf(std::string_view latency) const {
  const auto found = std::ranges::find(latencies_, latency, &Latency::name);
  return found == latencies_.end() ? 0 : found->requests;
}

std::optional<ServingTime> ServingTimeOf(std::span<const BenchmarkRequest> requests) {
  ServingTime time{.first = kTimeNever, .last = kTimeZero};
  for (const BenchmarkRequest& request : requests) {
    if (!request.completed) continue;
    if (!request.e2e) return std::nullopt;
    time.first = std::min(time.first, request.sent);
    time.last = std::max(time.last, request.sent + *request.e2e);
  }
  return time.last > time.first ? std::optional(time) : std::nullopt;
}

MetricValues ThroughputOf(std::span<const BenchmarkRequest> requests) {
  const std::optional<ServingTime> time = ServingTimeOf(requests);
  if (!time) return {};
  const auto completed = std::ranges::count(requests, true, &BenchmarkRequest::completed);
  return {{kThroughput, static_cast<double>(completed) / Seconds(time->length())}};
}

bool CountsTokens(std::span<const BenchmarkRequest> requests) {
  std::int64_t gaps = 0;
  std::int64_t tokens = 0;
  for (const BenchmarkRequest& request : requests) {
    if (!request.completed) continue;
    gaps += static_cast<std::int64_t>(request.gaps.size());
    tokens += request.output_tokens - 1;
  }
  constexpr double kMissing = 0.02;
  return gaps > 0 &&
         std::abs(static_cast<double>(gaps - tokens)) <= kMissing * static_cast<double>(tokens);
}

}  // namespace twin::run
