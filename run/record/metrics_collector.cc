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
  load_.until = now;
  window_.Arrive(life);
  if (!life.measured) return;
  requests_.Arrive();
  if (config_.by_tenant) Tenant(life.tenant).Arrive();
}

void MetricsCollector::OnGaps(TimePoint /*now*/, Duration gap, std::int64_t count) {
  requests_.AddGaps(gap, count);
  if (gap > config_.stall_threshold) stalls_ += count;
}

void MetricsCollector::OnStepEnded(const EndedStep& step) {
  work_.at(static_cast<std::size_t>(step.plan.replica)).Add(step);
}

void MetricsCollector::OnLoad(TimePoint from, TimePoint to, const Load& load) {
  load_.Add(from, to, load);
}

void MetricsCollector::OnEnded(const RequestLife& life) {
  window_.End(life);
  requests_.End(life, window_);
  if (config_.by_tenant) Tenant(life.tenant).End(life, window_);
}

Summary MetricsCollector::Summarise() const {
  Summary summary;
  Summarise(MetricWriter(summary));
  return summary;
}

void MetricsCollector::Summarise(const MetricWriter& out) const {
  if (config_.boundary || out.is_catalog()) {
    out.Add("latencies_at", "client", "",
            "client: latencies include the way to the engine and back; with system.boundary only");
  }
  requests_.Summarise(out, Window());
  constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
  out.Add("stalls", config_.streamed ? SummaryValue(stalls_) : SummaryValue(kUndefined), "tokens",
          "ITLs longer than metrics.stall_threshold_s", "count of itl > threshold");
  StepWork work;
  for (const StepWork& of_replica : work_) work += of_replica;
  work.Summarise(out);
  load_.Summarise(out, work.busy.total);
  SummariseTenants(out);
}

void MetricsCollector::SummariseTenants(const MetricWriter& out) const {
  std::vector<std::pair<std::int64_t, std::uint32_t>> largest;  // -requests, tenant
  for (const auto& [tenant, metrics] : tenants_) largest.emplace_back(-metrics.arrived(), tenant);
  const auto named = static_cast<std::ptrdiff_t>(std::min(largest.size(), kTenantsNamed));
  std::partial_sort(largest.begin(), largest.begin() + named, largest.end());
  std::set<std::uint32_t> names;
  for (std::ptrdiff_t i = 0; i < named; ++i) {
    names.insert(largest[static_cast<std::size_t>(i)].second);
  }
  const auto summarise = [&](const std::string& prefix, const RequestMetrics& metrics) {
    metrics.Summarise(out.Under(prefix, kByTenant), Window());
  };
  RequestMetrics others(config_.RequestConfig());
  for (const auto& [tenant, metrics] : tenants_) {
    if (names.contains(tenant)) {
      summarise(fmt::format("tenant_{}_", tenant), metrics);
    } else {
      others.Merge(metrics, Window());
    }
  }
  if (tenants_.size() > names.size()) summarise("tenant_others_", others);
}

RequestMetrics& MetricsCollector::Tenant(std::uint32_t tenant) {
  return tenants_.try_emplace(tenant, config_.RequestConfig()).first->second;
}

}  // namespace twin
