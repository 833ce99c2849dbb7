#include "run/record/metrics_collector.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace twin {

void MetricsCollector::OnArrived(TimePoint now, const RequestLife& life) {
  use_.until = now;
  window_.Arrive(life);
  if (!life.measured) return;
  requests_.Arrive();
  if (config_.by_tenant) Tenant(life.tenant).Arrive();
}

void MetricsCollector::OnGaps(TimePoint /*now*/, Duration gap, std::int64_t count) {
  itl_.Insert(gap.count(), count);
  if (gap > config_.stall_threshold) stalls_ += count;
}

void MetricsCollector::OnStepEnded(const EndedStep& step) {
  const StepTotals& totals = step.plan.totals;
  Work& work = work_.at(static_cast<std::size_t>(step.plan.replica));
  work.Add(step);
  work.padding_tokens += totals.padding_tokens;
  work.recomputed_tokens += step.recomputed_tokens;
  work.sequences += static_cast<std::int64_t>(step.plan.work.size());
  for (const Preemption& preemption : step.plan.preempted) {
    ++(preemption.how == Preemption::How::kSwap ? work.swaps : work.recomputes);
  }
  if (totals.draft_items > 0) {
    work.draft_items += totals.draft_items;
    work.draft_tokens += totals.draft_tokens;
    for (const ItemOutcome& outcome : step.outcomes) {
      work.accepted_drafts += outcome.accepted_drafts;
    }
  }
}

MetricsCollector::Work& MetricsCollector::Work::operator+=(const Work& other) {
  StepWork::operator+=(other);
  padding_tokens += other.padding_tokens;
  recomputed_tokens += other.recomputed_tokens;
  sequences += other.sequences;
  recomputes += other.recomputes;
  swaps += other.swaps;
  draft_items += other.draft_items;
  draft_tokens += other.draft_tokens;
  accepted_drafts += other.accepted_drafts;
  return *this;
}

MetricsCollector::Work MetricsCollector::WorkOfAll() const {
  Work sum;
  for (const Work& work : work_) sum += work;
  return sum;
}

void MetricsCollector::OnLoad(TimePoint from, TimePoint to, const Load& load) {
  const double seconds = Seconds(to - from);
  use_.seconds += seconds;
  use_.waiting += seconds * load.waiting;
  use_.running += seconds * load.running;
  use_.swapped += seconds * load.swapped;
  use_.blocks += seconds * load.used_blocks;
  use_.peak.waiting = std::max(use_.peak.waiting, load.waiting);
  use_.peak.running = std::max(use_.peak.running, load.running);
  use_.peak.swapped = std::max(use_.peak.swapped, load.swapped);
  use_.peak.used_blocks = std::max(use_.peak.used_blocks, load.used_blocks);
  use_.until = to;
}

void MetricsCollector::OnEnded(const RequestLife& life) {
  window_.End(life);
  requests_.End(life, window_);
  if (config_.by_tenant) Tenant(life.tenant).End(life, window_);
}

Summary MetricsCollector::Summarise() const {
  Summary summary;
  const RateWindow window = window_.Until(use_.until);
  if (config_.boundary) summary.Set("latencies_at", "client");
  requests_.SummariseCounts(summary, "", window);
  requests_.SummariseLatencies(summary, "", &itl_);
  if (config_.streamed) {
    summary.Set("stalls", stalls_);
  } else {
    summary.Set("stalls", std::numeric_limits<double>::quiet_NaN());
  }
  SummariseWork(summary);
  SummariseUse(summary);
  SummariseTenants(summary, window);
  return summary;
}

void MetricsCollector::SummariseTenants(Summary& summary, const RateWindow& window) const {
  std::vector<std::pair<std::int64_t, std::uint32_t>> largest;  // -requests, tenant
  for (const auto& [tenant, metrics] : tenants_) largest.emplace_back(-metrics.arrived(), tenant);
  const auto named = static_cast<std::ptrdiff_t>(std::min(largest.size(), kTenantsNamed));
  std::partial_sort(largest.begin(), largest.begin() + named, largest.end());
  std::set<std::uint32_t> names;
  for (std::ptrdiff_t i = 0; i < named; ++i) {
    names.insert(largest[static_cast<std::size_t>(i)].second);
  }
  const auto summarise = [&](const std::string& prefix, const RequestMetrics& metrics) {
    metrics.SummariseCounts(summary, prefix, window);
    metrics.SummariseLatencies(summary, prefix, nullptr);
  };
  RequestMetrics others(config_.RequestConfig());
  for (const auto& [tenant, metrics] : tenants_) {
    if (names.contains(tenant)) {
      summarise(fmt::format("tenant_{}_", tenant), metrics);
    } else {
      others.Merge(metrics, window);
    }
  }
  if (tenants_.size() > names.size()) summarise("tenant_others_", others);
}

RequestMetrics& MetricsCollector::Tenant(std::uint32_t tenant) {
  return tenants_.try_emplace(tenant, config_.RequestConfig()).first->second;
}

void MetricsCollector::SummariseWork(Summary& summary) const {
  const Work work = WorkOfAll();
  const std::int64_t computed = work.prefill_tokens + work.decode_tokens;
  const std::int64_t charged = computed + work.padding_tokens;
  summary.Set("steps", work.steps);
  summary.Set("preemptions", work.recomputes + work.swaps);
  summary.Set("recomputes", work.recomputes);
  summary.Set("swaps", work.swaps);
  summary.Set("computed_prefill_tokens", work.prefill_tokens);
  summary.Set("computed_decode_tokens", work.decode_tokens);
  summary.Set("recomputed_tokens", work.recomputed_tokens);
  summary.Set("preemption_overhead", Ratio(work.recomputed_tokens, computed));
  summary.Set("padding_share", Ratio(work.padding_tokens, charged));
  summary.Set("mean_batch_tokens", Ratio(charged, work.steps));
  summary.Set("mean_batch_sequences", Ratio(work.sequences, work.steps));
  if (work.draft_items == 0) return;
  summary.Set("spec_decode_num_drafts", work.draft_items);
  summary.Set("spec_decode_draft_tokens", work.draft_tokens);
  summary.Set("spec_decode_accepted_tokens", work.accepted_drafts);
  summary.Set("spec_decode_acceptance_rate", Ratio(work.accepted_drafts, work.draft_tokens));
  summary.Set("spec_decode_acceptance_length", 1.0 + Ratio(work.accepted_drafts, work.draft_items));
}

void MetricsCollector::SummariseUse(Summary& summary) const {
  const double blocks = config_.kv_blocks;
  summary.Set("run_seconds", Seconds(use_.until));
  summary.Set("simulated_seconds", Seconds(use_.until));
  summary.Set("busy_share",
              Ratio(Seconds(WorkOfAll().busy.total), use_.seconds * config_.replicas));
  summary.Set("mean_kv_used_share", Ratio(use_.blocks, use_.seconds * blocks));
  summary.Set("max_kv_used_share", Ratio(use_.peak.used_blocks, blocks));
  summary.Set("mean_running", Ratio(use_.running, use_.seconds));
  summary.Set("max_running", std::int64_t{use_.peak.running});
  summary.Set("mean_waiting", Ratio(use_.waiting, use_.seconds));
  summary.Set("max_waiting", std::int64_t{use_.peak.waiting});
  summary.Set("mean_swapped", Ratio(use_.swapped, use_.seconds));
}

}  // namespace twin
