#include "run/record/request_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

namespace twin {
namespace {

// `duration` divided by `parts`, rounded to the nearest nanosecond. REQUIRES: nothing is negative.
Duration Share(Duration duration, std::int64_t parts) {
  return Duration{(duration.count() + parts / 2) / parts};
}

void SummariseSketch(Summary& summary, std::string_view prefix, std::string_view metric,
                     const Sketch& sketch) {
  const auto set = [&](std::string_view statistic, double nanoseconds) {
    summary.Set(fmt::format("{}{}_{}_ms", prefix, statistic, metric), nanoseconds * 1e-6);
  };
  set("mean", sketch.mean());
  set("median", sketch.Quantile(0.5));
  set("std", sketch.deviation());
  set("min", sketch.minimum());
  set("p50", sketch.Quantile(0.5));
  set("p90", sketch.Quantile(0.9));
  set("p95", sketch.Quantile(0.95));
  set("p99", sketch.Quantile(0.99));
  set("max", sketch.maximum());
}

}  // namespace

bool ServiceGoal::Keeps(const RequestLife& life) const {
  if (ttft && life.has_tokens() && life.first_received() - life.arrival > *ttft) return false;
  if (e2el && life.last_received() - life.arrival > *e2el) return false;
  // Multiplied out, so that no rounding decides.
  return !tpot || life.output_tokens < 2 ||
         life.ended - life.first_token <= *tpot * (life.output_tokens - 1);
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

RequestMetrics::Answers& RequestMetrics::Answers::operator+=(const Answers& other) {
  completed += other.completed;
  good += other.good;
  input_tokens += other.input_tokens;
  output_tokens += other.output_tokens;
  return *this;
}

void RequestMetrics::End(const RequestLife& life, const RateWindow& window) {
  if (life.measured) EndMeasured(life, window);
  if (life.status != RequestStatus::kCompleted || !window.BeginsBefore(life)) return;
  const Answers answer{
      .completed = 1,
      .good = config_.goal.Keeps(life) ? 1 : 0,
      .input_tokens = life.prompt_tokens,
      .output_tokens = life.output_tokens,
  };
  if (life.measured) measured_ += answer;
  if (window.end() > window_end_) {
    in_window_ += std::exchange(behind_window_, {});
    window_end_ = window.end();
  }
  (life.last_received() <= window.end() ? in_window_ : behind_window_) += answer;
}

void RequestMetrics::EndMeasured(const RequestLife& life, const RateWindow& window) {
  if (life.status == RequestStatus::kRejected) {
    ++rejected_[static_cast<std::size_t>(life.reject_reason)];
    return;
  }
  if (life.status != RequestStatus::kCompleted) {
    ++cancelled_;
    return;
  }
  cut_outputs_ += life.output_cut ? 1 : 0;
  cached_tokens_ += life.cached_tokens;
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

RequestMetrics::Answers RequestMetrics::InWindow(const RateWindow& window) const {
  Answers all = in_window_;
  if (window.end() > window_end_) all += behind_window_;
  return all;
}

void RequestMetrics::Merge(const RequestMetrics& other, const RateWindow& window) {
  arrived_ += other.arrived_;
  measured_ += other.measured_;
  in_window_ += other.InWindow(window);
  for (std::size_t i = 0; i < rejected_.size(); ++i) rejected_[i] += other.rejected_[i];
  cancelled_ += other.cancelled_;
  cut_outputs_ += other.cut_outputs_;
  cached_tokens_ += other.cached_tokens_;
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

void RequestMetrics::SummariseCounts(Summary& summary, std::string_view prefix,
                                     const RateWindow& window) const {
  const auto set = [&](std::string_view name, SummaryValue value) {
    summary.Set(std::string(prefix).append(name), std::move(value));
  };
  const std::int64_t rejected =
      std::accumulate(rejected_.begin(), rejected_.end(), std::int64_t{0});
  const std::int64_t ended = measured_.completed + rejected + cancelled_;
  const double duration = window.seconds();
  const Answers rates = InWindow(window);
  set("requests", ended);
  set("completed", measured_.completed);
  set("rejected", rejected);
  for (std::size_t i = 0; i < rejected_.size(); ++i) {
    set(fmt::format("rejected_{}", kRejectReasonNames[i]), rejected_[i]);
  }
  set("cancelled", cancelled_);
  set("unfinished", arrived_ - ended);
  set("unanswered_share", Ratio(arrived_ - measured_.completed, arrived_));
  set("cut_outputs", cut_outputs_);
  set("duration_seconds", duration);
  set("total_input_tokens", measured_.input_tokens);
  set("total_output_tokens", measured_.output_tokens);
  set("request_throughput", Ratio(rates.completed, duration));
  set("output_throughput", Ratio(rates.output_tokens, duration));
  set("total_token_throughput", Ratio(rates.input_tokens + rates.output_tokens, duration));
  if (config_.goal.any()) {
    const auto judged = [this](double value) {
      return config_.judges_goal() ? value : std::numeric_limits<double>::quiet_NaN();
    };
    set("request_goodput", judged(Ratio(rates.good, duration)));
    set("slo_attainment", judged(Ratio(measured_.good, ended)));
  }
  set("prefix_hit_share", Ratio(cached_tokens_, measured_.input_tokens));
}

void RequestMetrics::SummariseLatencies(Summary& summary, std::string_view prefix,
                                        const Sketch* itl) const {
  SummariseSketch(summary, prefix, "ttft", latencies_[kTtft]);
  SummariseSketch(summary, prefix, "tpot", latencies_[kTpot]);
  if (itl != nullptr) SummariseSketch(summary, prefix, "itl", *itl);
  SummariseSketch(summary, prefix, "e2el", latencies_[kE2el]);
  SummariseSketch(summary, prefix, "queue", latencies_[kQueue]);
  SummariseSketch(summary, prefix, "longest_itl", latencies_[kLongestItl]);
  if (config_.boundary) {
    SummariseSketch(summary, prefix, "engine_ttft", latencies_[kEngineTtft]);
    SummariseSketch(summary, prefix, "engine_e2el", latencies_[kEngineE2el]);
    SummariseSketch(summary, prefix, "request_delay", latencies_[kRequestDelay]);
    SummariseSketch(summary, prefix, "response_delay", latencies_[kResponseDelay]);
  }
  if (config_.client_waits) {
    SummariseSketch(summary, prefix, "client_queue_time", latencies_[kClientQueueTime]);
    SummariseSketch(summary, prefix, "e2el_including_client_queue",
                    latencies_[kE2elIncludingClientQueue]);
  }
  const auto set = [&](std::string_view statistic, double nanoseconds) {
    summary.Set(fmt::format("{}{}_normalized_ms_per_token", prefix, statistic), nanoseconds * 1e-6);
  };
  set("mean", latencies_[kNormalized].mean());
  set("p50", latencies_[kNormalized].Quantile(0.5));
  set("p99", latencies_[kNormalized].Quantile(0.99));
  summary.Set(std::string(prefix).append("burst_share_of_ttft_tail"), BurstShareOfTail());
}

}  // namespace twin
