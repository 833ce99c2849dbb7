#include "run/run_metrics.h"

#include <algorithm>
#include <initializer_list>

#include "run/deployed_groups.h"

namespace twin::run {

bool HasBoundary(const ExperimentConfig& config) {
  return sim::HasDelays(config.system.boundary) && HasCosts(config.world);
}

FurtherColumns FurtherColumnsOf(const ExperimentConfig& config) {
  return {.boundary = HasBoundary(config), .replica = config.system.replicas > 1};
}

MetricsConfig MetricsConfigOf(const ExperimentConfig& config, const EngineGroups& engines,
                              Delivery delivery) {
  return {.goal = config.slo,
          .stall_threshold = config.metrics.stall_threshold,
          .kv_blocks = KvBlocksOf(engines),
          .replicas = config.system.replicas,
          .by_tenant = config.metrics.by_tenant,
          .boundary = HasBoundary(config),
          .client_waits = config.workload.max_in_flight > 0,
          .streamed = delivery == Delivery::kPerStep};
}

TrackerConfig TrackerConfigOf(const ExperimentConfig& config, const EngineGroups& engines,
                              Delivery delivery) {
  TrackerConfig tracker;
  tracker.kv_blocks = engines.front().engine.kv.blocks;
  tracker.delivery = delivery;
  if (engines.size() > 1) {
    for (const EngineGroup& group : engines) {
      tracker.blocks_by_replica.insert(tracker.blocks_by_replica.end(),
                                       static_cast<std::size_t>(group.replicas),
                                       group.engine.kv.blocks);
    }
  }
  const RunMetricsConfig& metrics = config.metrics;
  if (metrics.head_share + metrics.tail_share > 0) {
    tracker.window = MeasuredWindow::Trimmed(static_cast<std::uint64_t>(config.workload.requests),
                                             metrics.head_share, metrics.tail_share);
  }
  return tracker;
}

namespace {

TrackerConfig TrackerOf(const Deployment& deployment) {
  TrackerConfig tracker =
      TrackerConfigOf(deployment.config, EnginesOf(deployment), deployment.traits.delivery);
  MeasuredWindow& window = tracker.window;
  window.first_request = std::max(window.first_request, deployment.warmup_requests);
  return tracker;
}

MetricsConfig MetricsOf(const Deployment& deployment) {
  return MetricsConfigOf(deployment.config, EnginesOf(deployment), deployment.traits.delivery);
}

void SummariseDevices(std::int64_t devices, Summary& summary) {
  const double output = Ratio(summary.Number("output_throughput"), devices);
  summary.Set("devices", devices);
  summary.Set("request_throughput_per_device",
              Ratio(summary.Number("request_throughput"), devices));
  summary.Set("output_throughput_per_device", output);
  summary.Set("device_hours_per_million_output_tokens", Ratio(1e6, 3600 * output));
}

std::optional<ReplicaMeter> MeterOf(std::int32_t replicas) {
  return replicas > 1 ? std::optional<ReplicaMeter>(replicas) : std::nullopt;
}

std::optional<GroupMeter> MeterOfGroups(const Deployment& deployment) {
  if (deployment.groups.empty()) return std::nullopt;
  std::vector<MeteredGroup> groups;
  for (const EngineGroup& group : EnginesOf(deployment)) {
    groups.push_back({group.replicas, group.engine.kv.blocks});
  }
  return GroupMeter(groups, MetricsOf(deployment).RequestConfig());
}

// `further`: null where a run has no such listener.
std::vector<RunListener*> ListenersOf(MetricsCollector& metrics, OverloadMeter& overload,
                                      std::initializer_list<RunListener*> further,
                                      const RunWatchers& watchers) {
  std::vector<RunListener*> listeners = {&metrics, &overload};
  for (RunListener* const listener : further) {
    if (listener != nullptr) listeners.push_back(listener);
  }
  listeners.insert(listeners.end(), watchers.listeners.begin(), watchers.listeners.end());
  return listeners;
}

}  // namespace

RunMetrics::RunMetrics(const Deployment& deployment, const RunWatchers& watchers)
    : by_tenant_(deployment.config.metrics.by_tenant),
      devices_(DevicesOf(deployment)),
      metrics_(MetricsOf(deployment)),
      replicas_(MeterOf(deployment.config.system.replicas)),
      groups_(MeterOfGroups(deployment)),
      digest_(deployment.config.system.replicas),
      listeners_(ListenersOf(metrics_, overload_,
                             {by_tenant_ ? &fairness_ : nullptr, replicas_ ? &*replicas_ : nullptr,
                              groups_ ? &*groups_ : nullptr},
                             watchers)),
      watched_(!watchers.listeners.empty() || !watchers.observers.empty()),
      tracker_(TrackerOf(deployment), listeners_),
      observers_{&digest_, &tracker_} {
  if (deployment.config.system.disaggregation) {
    const std::int64_t token_bytes = KvBytesPerToken(deployment.config.system.model_spec);
    observers_.push_back(&transfers_.emplace(static_cast<double>(token_bytes)));
  }
  observers_.insert(observers_.end(), watchers.observers.begin(), watchers.observers.end());
}

LogPlayer* RunMetrics::ReplicaPlayer() {
  if (watched_ || by_tenant_ || transfers_) return nullptr;
  return &player_.emplace(listeners_);
}

Summary RunMetrics::Summarise() {
  Summary summary = metrics_.Summarise();
  overload_.Summarise(summary);
  SummariseDevices(devices_, summary);
  if (by_tenant_) fairness_.Summarise(summary);
  if (replicas_) replicas_->Summarise(summary);
  if (groups_) groups_->Summarise(summary);
  if (transfers_) transfers_->Summarise(summary);
  summary.Set("digest", digest_.text());
  return summary;
}

}  // namespace twin::run
