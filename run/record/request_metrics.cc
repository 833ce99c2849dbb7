#include "run/record/request_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace twin {
namespace {

// `duration` divided by `parts`, rounded to the nearest nanosecond. REQUIRES: nothing is negative.
Duration Share(Duration duration, std::int64_t parts) {
  return Duration{(duration.count() + parts / 2) / parts};
}

constexpr std::array kStatistics = {
    Statistic{"mean", "arithmetic mean", 0.01, [](const Sketch& s) { return s.mean(); }},
    Statistic{"median", "the same as p50", 0.5, [](const Sketch& s) { return s.Quantile(0.5); }},
    Statistic{"std", "standard deviation of the population", 0.01,
              [](const Sketch& s) { return s.deviation(); }},
    Statistic{"min", "minimum", 0.01, [](const Sketch& s) { return s.minimum(); }},
    Statistic{"p50", "quantile 0.5", 0.5, [](const Sketch& s) { return s.Quantile(0.5); }},
    Statistic{"p90", "quantile 0.9", 0.1, [](const Sketch& s) { return s.Quantile(0.9); }},
    Statistic{"p95", "quantile 0.95", 0.05, [](const Sketch& s) { return s.Quantile(0.95); }},
    Statistic{"p99", "quantile 0.99", 0.01, [](const Sketch& s) { return s.Quantile(0.99); }},
    Statistic{"max", "maximum", 0, [](const Sketch& s) { return s.maximum(); }},
};

constexpr double kMsPerNs = 1e-6;
constexpr int kByTenantAndGroup = kByTenant | kByGroup;

}  // namespace

std::span<const Statistic> Statistics() { return kStatistics; }

std::string LatencyKey(const Statistic& statistic, const RequestMetrics::LatencyRow& latency) {
  return fmt::format("{}_{}_ms", statistic.name, latency.name);
}

bool Keeps(const ServiceGoal& goal, const RequestLife& life) {
  if (goal.ttft && life.has_tokens() && life.first_received() - life.arrival > *goal.ttft) {
    return false;
  }
  if (goal.e2el && life.last_received() - life.arrival > *goal.e2el) return false;
  // Multiplied out, so that no rounding decides.
  return !goal.tpot || life.output_tokens < 2 ||
         life.ended - life.first_token <= *goal.tpot * (life.output_tokens - 1);
}

void RateWindow::Arrive(const RequestLife& life) {
  if (!life.measured) return;
  begin_ = std::min(begin_, life.arrival);
  ++open_;
}

void RateWindow::End(const RequestLife& life) {
  if (!life.measured) return;
  end_ = std::max(end_, life.left());
  --open_;
}

RateWindow RateWindow::Until(TimePoint now) const {
  RateWindow whole = *this;
  if (open_ > 0) whole.end_ = std::max(end_, now);
  return whole;
}

void RequestMetrics::End(const RequestLife& life, const RateWindow& window) {
  if (life.measured) EndMeasured(life, window);
  if (life.status != RequestStatus::kCompleted || !window.BeginsBefore(life)) return;
  Counts answer{};
  answer[kCompleted] = 1;
  answer[kGood] = Keeps(config_.goal, life) ? 1 : 0;
  answer[kInputTokens] = life.prompt_tokens;
  answer[kOutputTokens] = life.output_tokens;
  if (life.measured) counts_ += answer;
  if (window.end() > window_end_) {
    in_window_ += std::exchange(behind_window_, {});
    window_end_ = window.end();
  }
  (life.last_received() <= window.end() ? in_window_ : behind_window_) += answer;
}

void RequestMetrics::EndMeasured(const RequestLife& life, const RateWindow& window) {
  ++counts_[kEnded];
  if (life.status == RequestStatus::kRejected) {
    static_assert(kCancelled - kRejectedTooLong == kRejectReasonNames.size());
    ++counts_[kRejected];
    ++counts_[kRejectedTooLong + static_cast<std::size_t>(life.reject_reason)];
    return;
  }
  if (life.status != RequestStatus::kCompleted) {
    ++counts_[kCancelled];
    return;
  }
  counts_[kCutOutputs] += life.output_cut ? 1 : 0;
  counts_[kCachedTokens] += life.cached_tokens;
  const Duration latency = life.last_received() - life.arrival;
  Insert(kE2el, latency);
  const TimePoint queued = config_.boundary ? life.reached : life.arrival;
  if (life.scheduled != kTimeNever) Insert(kQueue, life.scheduled - queued);
  if (config_.boundary) EndAtEngine(life);
  if (config_.client_waits) {
    Insert(kClientQueueTime, life.client_wait);
    Insert(kE2elIncludingClientQueue, life.client_wait + latency);
  }
  if (!life.has_tokens()) return;
  const Duration ttft = life.first_received() - life.arrival;
  Insert(kTtft, ttft);
  if (life.arrival == window.begin()) Insert(kBurstTtft, ttft);
  Insert(kNormalized, Share(latency, life.output_tokens));
  if (!life.has_gaps()) return;
  Insert(kTpot, Share(life.ended - life.first_token, life.output_tokens - 1));
  Insert(kLongestItl, life.longest_gap);
}

void RequestMetrics::EndAtEngine(const RequestLife& life) {
  Insert(kRequestDelay, life.reached - life.arrival);
  Insert(kResponseDelay, life.response_delay);
  Insert(kEngineE2el, life.ended - life.reached);
  if (life.has_tokens()) Insert(kEngineTtft, life.first_token - life.reached);
}

RequestMetrics::Counts& RequestMetrics::Counts::operator+=(const Counts& other) {
  for (std::size_t i = 0; i < size(); ++i) at(i) += other[i];
  return *this;
}

RequestMetrics::Counts RequestMetrics::InWindow(const RateWindow& window) const {
  Counts all = in_window_;
  if (window.end() > window_end_) all += behind_window_;
  return all;
}

void RequestMetrics::Merge(const RequestMetrics& other, const RateWindow& window) {
  counts_ += other.counts_;
  in_window_ += other.InWindow(window);
  for (std::size_t i = 0; i < latencies_.size(); ++i) latencies_[i].Merge(other.latencies_[i]);
}

// Undefined unless several requests arrived together at first, and further ones after them.
double RequestMetrics::BurstShareOfTail() const {
  const Sketch& burst = latencies_[kBurstTtft];
  const Sketch& all = latencies_[kTtft];
  if (burst.count() < 2 || burst.count() == all.count()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const double tail = all.Quantile(0.99);
  return Ratio(burst.CountAtLeast(tail), all.CountAtLeast(tail));
}

std::span<const RequestMetrics::LatencyRow> RequestMetrics::Latencies() {
  static constexpr LatencyRow kRows[] = {
      {"ttft", "time to first token of a completed request", "f - a"},
      {"tpot", "time per output token after the first; requests with n >= 2", "(c - f) / (n - 1)"},
      {"itl",
       "inter-token latency, also called time between tokens (tbt); pooled over all tokens of all "
       "requests",
       "t_i - t_(i-1), i >= 2", nullptr, false},
      {"e2el", "end-to-end latency of a completed request", "c - a"},
      {"queue", "queueing delay of a completed request", "s - a"},
      {"longest_itl", "longest ITL of a request with n >= 2", "max_i (t_i - t_(i-1))"},
      {"engine_ttft", "time to first token at the engine; with system.boundary only", "f' - r",
       &Config::boundary},
      {"engine_e2el", "end-to-end latency at the engine; with system.boundary only", "c' - r",
       &Config::boundary},
      {"request_delay", "from the client to the engine; with system.boundary only", "r - a",
       &Config::boundary},
      {"response_delay", "from the engine to the client; with system.boundary only", "f - f'",
       &Config::boundary},
      {"client_queue_time",
       "time for which a client held a request back before it sent it, at a; with "
       "workload.max_in_flight only",
       "w", &Config::client_waits},
      {"e2el_including_client_queue",
       "end-to-end latency from when the client wanted to send; with workload.max_in_flight only",
       "w + c - a", &Config::client_waits},
  };
  static_assert(std::size(kRows) == kNormalized);
  return kRows;
}

void RequestMetrics::SummariseCounts(const MetricWriter& out, const RateWindow& window) const {
  out.Add("requests", counts_[kEnded], "requests", "requests that left",
          "completed + rejected + cancelled");
  out.Add("completed", counts_[kCompleted], "requests", "requests that got their whole output");
  out.Add("rejected", counts_[kRejected], "requests", "requests that the engine refused");
  out.Add("rejected_too_long_for_model", counts_[kRejectedTooLong], "requests",
          "rejected because they exceed the model's or the policy's length limit");
  out.Add("rejected_too_large_for_cache", counts_[kRejectedTooLarge], "requests",
          "rejected because not even an empty KV cache could hold them");
  out.Add("rejected_overloaded", counts_[kRejectedOverloaded], "requests",
          "rejected because the policy's limit of requests in the system was reached");
  out.Add("cancelled", counts_[kCancelled], "requests", "requests whose client went away");
  out.Add("unfinished", counts_[kArrived] - counts_[kEnded], "requests",
          "requests that arrived and had not left when the run ended");
  out.Add("unanswered_share", Ratio(counts_[kArrived] - counts_[kCompleted], counts_[kArrived]),
          "share",
          "share of the requests that got no answer: rejected, cancelled or unfinished; latencies "
          "are those of the others",
          "(rejected + cancelled + unfinished) / (requests + unfinished)");
  out.Add("cut_outputs", counts_[kCutOutputs], "requests",
          "completed requests whose output ended below its limit because the context was full");
  out.Add("duration_seconds", window.seconds(), "s",
          "from the first arrival of a counted request until the last of them has left, answered "
          "or not",
          "last end - first a");
  out.Add("total_input_tokens", counts_[kInputTokens], "tokens",
          "prompt tokens of the completed requests");
  out.Add("total_output_tokens", counts_[kOutputTokens], "tokens",
          "output tokens of the completed requests", "sum of n");
}

void RequestMetrics::SummariseRates(const MetricWriter& out, const RateWindow& window) const {
  const double seconds = window.seconds();
  const Counts rates = InWindow(window);
  out.Add("request_throughput", Ratio(rates[kCompleted], seconds), "requests/s",
          "requests completed per second of duration_seconds, those that head_share and tail_share "
          "leave out too",
          "completions in that time / duration_seconds");
  out.Add("output_throughput", Ratio(rates[kOutputTokens], seconds), "tokens/s",
          "output tokens of these completions per second", "their n / duration_seconds");
  out.Add("total_token_throughput", Ratio(rates[kInputTokens] + rates[kOutputTokens], seconds),
          "tokens/s", "prompt and output tokens of these completions per second",
          "their (prompt tokens + n) / duration_seconds");
  if (config_.goal.any() || out.is_catalog()) {
    out.Add("request_goodput", config_.Judged(Ratio(rates[kGood], seconds)), "requests/s",
            "those of these completions that keep every bound of `slo`, per second; with `slo` "
            "only",
            "good / duration_seconds");
    out.Add("slo_attainment", config_.Judged(Ratio(counts_[kGood], counts_[kEnded])), "share",
            "share of requests that keep every bound of `slo` (inclusive); rejected and cancelled "
            "requests keep none; with `slo` only",
            "good / requests");
  }
  out.Add("prefix_hit_share", Ratio(counts_[kCachedTokens], counts_[kInputTokens]), "share",
          "share of the completed requests' prompt tokens that came from the prefix cache at their "
          "first admission",
          "cached tokens / total_input_tokens");
}

void RequestMetrics::SummariseLatencies(const MetricWriter& out) const {
  for (std::size_t i = 0; i < Latencies().size(); ++i) {
    const LatencyRow& row = Latencies()[i];
    const bool is_reported = row.only == nullptr || config_.*row.only || out.is_catalog();
    if (!is_reported) continue;
    for (const Statistic& statistic : kStatistics) {
      out.Add(
          LatencyKey(statistic, row), statistic.of(latencies_[i]) * kMsPerNs, "ms",
          out.is_catalog() ? fmt::format("{}: {}", row.what, statistic.what) : "", row.formula,
          (row.by_tenant ? kByTenantAndGroup : 0) | (statistic.name == "std" ? 0 : kLowerIsBetter));
    }
  }
}

void RequestMetrics::Summarise(const MetricWriter& out, const RateWindow& window) const {
  const MetricWriter each = out.With(kByTenantAndGroup);
  SummariseCounts(each, window);
  SummariseRates(each.With(kHigherIsBetter), window);
  SummariseLatencies(out.With(kLatency));
  const Sketch& normalized = latencies_[kNormalized];
  const auto add = [&](std::string_view name, double nanoseconds, std::string_view what) {
    each.Add(name, nanoseconds * kMsPerNs, "ms/token", what, "(c - a) / n", kLatency);
  };
  add("mean_normalized_ms_per_token", normalized.mean(), "normalized latency, mean over requests");
  add("p50_normalized_ms_per_token", normalized.Quantile(0.5), "normalized latency, quantile 0.5");
  add("p99_normalized_ms_per_token", normalized.Quantile(0.99),
      "normalized latency, quantile 0.99");
  each.Add("burst_share_of_ttft_tail", BurstShareOfTail(), "share",
           "share of the requests that arrived together at first, as users of a closed loop do, "
           "among those with a TTFT of p99_ttft_ms or more; undefined without others");
}

}  // namespace twin
