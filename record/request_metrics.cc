#include "record/request_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

namespace twin {
namespace {

double Ratio(double numerator, double denominator) {
  return denominator > 0 ? numerator / denominator : std::numeric_limits<double>::quiet_NaN();
}

double Ratio(std::int64_t numerator, double denominator) {
  return Ratio(static_cast<double>(numerator), denominator);
}

// Rounded to the nearest nanosecond. REQUIRES: nothing is negative.
std::int64_t Share(Duration duration, std::int64_t parts) {
  return (duration.count() + parts / 2) / parts;
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

void RequestMetrics::Arrive(const RequestLife& life) {
  ++arrived_;
  first_arrival_ = std::min(first_arrival_, life.arrival);
}

void RequestMetrics::End(const RequestLife& life) {
  if (life.status == RequestStatus::kRejected) {
    ++rejected_[static_cast<std::size_t>(life.reject_reason)];
    return;
  }
  if (life.status != RequestStatus::kCompleted) {
    ++cancelled_;
    return;
  }
  ++completed_;
  cut_outputs_ += life.output_cut ? 1 : 0;
  last_completion_ = std::max(last_completion_, life.last_received());
  input_tokens_ += life.prompt_tokens;
  output_tokens_ += life.output_tokens;
  cached_tokens_ += life.cached_tokens;
  if (goal_.any() && goal_.Keeps(life)) ++good_;
  const Duration latency = life.last_received() - life.arrival;
  e2el_.Insert(latency.count());
  const TimePoint queued = boundary_ ? life.reached : life.arrival;
  if (life.scheduled != kTimeNever) queue_.Insert((life.scheduled - queued).count());
  if (boundary_) EndAtEngine(life);
  if (!life.has_tokens()) return;
  ttft_.Insert((life.first_received() - life.arrival).count());
  normalized_.Insert(Share(latency, life.output_tokens));
  if (life.output_tokens < 2) return;
  tpot_.Insert(Share(life.ended - life.first_token, life.output_tokens - 1));
  longest_itl_.Insert(life.longest_gap.count());
}

void RequestMetrics::EndAtEngine(const RequestLife& life) {
  request_delay_.Insert((life.reached - life.arrival).count());
  response_delay_.Insert(life.response_delay.count());
  engine_e2el_.Insert((life.ended - life.reached).count());
  if (life.has_tokens()) engine_ttft_.Insert((life.first_token - life.reached).count());
}

void RequestMetrics::Merge(const RequestMetrics& other) {
  arrived_ += other.arrived_;
  completed_ += other.completed_;
  for (std::size_t i = 0; i < rejected_.size(); ++i) rejected_[i] += other.rejected_[i];
  cancelled_ += other.cancelled_;
  cut_outputs_ += other.cut_outputs_;
  good_ += other.good_;
  input_tokens_ += other.input_tokens_;
  output_tokens_ += other.output_tokens_;
  cached_tokens_ += other.cached_tokens_;
  first_arrival_ = std::min(first_arrival_, other.first_arrival_);
  last_completion_ = std::max(last_completion_, other.last_completion_);
  queue_.Merge(other.queue_);
  ttft_.Merge(other.ttft_);
  tpot_.Merge(other.tpot_);
  e2el_.Merge(other.e2el_);
  normalized_.Merge(other.normalized_);
  longest_itl_.Merge(other.longest_itl_);
  engine_ttft_.Merge(other.engine_ttft_);
  engine_e2el_.Merge(other.engine_e2el_);
  request_delay_.Merge(other.request_delay_);
  response_delay_.Merge(other.response_delay_);
}

double RequestMetrics::duration_seconds() const {
  return completed_ == 0 ? 0 : Seconds(last_completion_ - first_arrival_);
}

void RequestMetrics::SummariseCounts(Summary& summary, std::string_view prefix) const {
  const auto set = [&](std::string_view name, SummaryValue value) {
    summary.Set(std::string(prefix).append(name), std::move(value));
  };
  const std::int64_t rejected =
      std::accumulate(rejected_.begin(), rejected_.end(), std::int64_t{0});
  const std::int64_t ended = completed_ + rejected + cancelled_;
  const double duration = duration_seconds();
  set("requests", ended);
  set("completed", completed_);
  set("rejected", rejected);
  for (std::size_t i = 0; i < rejected_.size(); ++i) {
    set(fmt::format("rejected_{}", kRejectReasonNames[i]), rejected_[i]);
  }
  set("cancelled", cancelled_);
  set("unfinished", arrived_ - ended);
  set("cut_outputs", cut_outputs_);
  set("duration_seconds", duration);
  set("total_input_tokens", input_tokens_);
  set("total_output_tokens", output_tokens_);
  set("request_throughput", Ratio(completed_, duration));
  set("output_throughput", Ratio(output_tokens_, duration));
  set("total_token_throughput", Ratio(input_tokens_ + output_tokens_, duration));
  if (goal_.any()) {
    set("request_goodput", Ratio(good_, duration));
    set("slo_attainment", Ratio(good_, static_cast<double>(ended)));
  }
  set("prefix_hit_share", Ratio(cached_tokens_, static_cast<double>(input_tokens_)));
}

void RequestMetrics::SummariseLatencies(Summary& summary, std::string_view prefix,
                                        const Sketch* itl) const {
  SummariseSketch(summary, prefix, "ttft", ttft_);
  SummariseSketch(summary, prefix, "tpot", tpot_);
  if (itl != nullptr) SummariseSketch(summary, prefix, "itl", *itl);
  SummariseSketch(summary, prefix, "e2el", e2el_);
  SummariseSketch(summary, prefix, "queue", queue_);
  SummariseSketch(summary, prefix, "longest_itl", longest_itl_);
  if (boundary_) {
    SummariseSketch(summary, prefix, "engine_ttft", engine_ttft_);
    SummariseSketch(summary, prefix, "engine_e2el", engine_e2el_);
    SummariseSketch(summary, prefix, "request_delay", request_delay_);
    SummariseSketch(summary, prefix, "response_delay", response_delay_);
  }
  const auto set = [&](std::string_view statistic, double nanoseconds) {
    summary.Set(fmt::format("{}{}_normalized_ms_per_token", prefix, statistic), nanoseconds * 1e-6);
  };
  set("mean", normalized_.mean());
  set("p50", normalized_.Quantile(0.5));
  set("p99", normalized_.Quantile(0.99));
}

}  // namespace twin
