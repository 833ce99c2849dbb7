#include "run/run_metrics.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <optional>
#include <utility>

#include "run/deployed_groups.h"
#include "run/ffn_pool_deployment.h"
#include "run/record/csv_columns.h"
#include "run/record/energy_meter.h"
#include "run/record/fairness_meter.h"
#include "run/record/group_meter.h"
#include "run/record/log_player.h"
#include "run/record/metrics_collector.h"
#include "run/record/overload_meter.h"
#include "run/record/plan_digest.h"
#include "run/record/replica_meter.h"
#include "run/record/request_tracker.h"
#include "run/record/run_listener.h"
#include "run/record/run_measurements.h"
#include "run/record/run_observer.h"
#include "run/record/slot_meter.h"
#include "run/record/transfer_meter.h"

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
      TrackerConfigOf(deployment.config, deployment.engines(), deployment.traits.delivery);
  MeasuredWindow& window = tracker.window;
  window.first_request = std::max(window.first_request, deployment.warmup_requests);
  return tracker;
}

MetricsConfig MetricsOf(const Deployment& deployment) {
  return MetricsConfigOf(deployment.config, deployment.engines(), deployment.traits.delivery);
}

std::optional<ReplicaMeter> MeterOf(std::int32_t replicas) {
  return replicas > 1 ? std::optional<ReplicaMeter>(replicas) : std::nullopt;
}

std::optional<GroupMeter> MeterOfGroups(const Deployment& deployment) {
  if (deployment.groups.empty()) return std::nullopt;
  std::vector<MeteredGroup> groups;
  for (const EngineGroup& group : deployment.engines()) {
    groups.push_back({group.replicas, group.engine.kv.blocks});
  }
  return GroupMeter(groups, MetricsOf(deployment).RequestConfig());
}

MeteredDevices DevicesToMeter(const SystemConfig& system) {
  MeteredDevices devices{.replicas = system.replicas,
                         .devices = system.devices(),
                         .energy = EnergyOf(system),
                         .price = PriceOf(system),
                         .work = {}};
  if (devices.energy) devices.work = WorkOf(system);
  return devices;
}

// Without a value if nothing is known of the devices' energy or price.
std::optional<EnergyMeter> EnergyMeterOf(const Deployment& deployment) {
  std::vector<MeteredDevices> devices;
  for (const Deployment& group : deployment.groups) {
    devices.push_back(DevicesToMeter(group.config.system));
  }
  if (devices.empty()) devices.push_back(DevicesToMeter(deployment.config.system));
  const bool known = std::ranges::any_of(
      devices, [](const MeteredDevices& group) { return group.energy || group.price; });
  if (!known) return std::nullopt;
  const RunMetricsConfig& metrics = deployment.config.metrics;
  return EnergyMeter(std::move(devices), metrics.series_interval,
                     static_cast<std::size_t>(metrics.series_points_max));
}

// Without a value if no replica has several stages.
std::optional<SlotMeter> SlotMeterOf(const Deployment& deployment) {
  std::vector<std::int32_t> stages;
  const auto add = [&stages](const SystemConfig& system) {
    stages.insert(stages.end(), static_cast<std::size_t>(system.replicas),
                  system.parallelism.pipeline);
  };
  for (const Deployment& group : deployment.groups) add(group.config.system);
  if (stages.empty()) add(deployment.config.system);
  const bool has_pipeline = std::ranges::any_of(stages, [](std::int32_t n) { return n > 1; });
  return has_pipeline ? std::optional<SlotMeter>(stages) : std::nullopt;
}

// `further`: listeners, null where a run does not have the listener.
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

struct RunMetrics::Meters {
  Meters(const Deployment& deployment, const RunWatchers& watchers);

  const bool by_tenant;
  const std::int64_t devices;
  MetricsCollector metrics;
  OverloadMeter overload;
  FairnessMeter fairness{FairnessConfig{}};
  std::optional<ReplicaMeter> replicas;    // only of several replicas
  std::optional<GroupMeter> groups;        // only of replicas that differ
  std::optional<SlotMeter> slots;          // only of pipelines
  std::optional<EnergyMeter> energy;       // only of devices of known energy or price
  std::optional<TransferMeter> transfers;  // only between prefill and decode
  PlanDigest digest;
  std::vector<RunListener*> listeners;
  const bool watched;
  std::optional<LogPlayer> player;
  RequestTracker tracker;
  std::vector<RunObserver*> observers;
};

RunMetrics::Meters::Meters(const Deployment& deployment, const RunWatchers& watchers)
    : by_tenant(deployment.config.metrics.by_tenant),
      devices(DevicesOf(deployment)),
      metrics(MetricsOf(deployment)),
      overload(MetricsOf(deployment).RequestConfig()),
      replicas(MeterOf(deployment.config.system.replicas)),
      groups(MeterOfGroups(deployment)),
      slots(SlotMeterOf(deployment)),
      energy(EnergyMeterOf(deployment)),
      digest(deployment.config.system.replicas),
      listeners(ListenersOf(
          metrics, overload,
          {by_tenant ? &fairness : nullptr, replicas ? &*replicas : nullptr,
           groups ? &*groups : nullptr, slots ? &*slots : nullptr, energy ? &*energy : nullptr},
          watchers)),
      watched(!watchers.listeners.empty() || !watchers.observers.empty()),
      tracker(TrackerOf(deployment), listeners),
      observers{&digest, &tracker} {
  if (deployment.config.system.disaggregation) {
    const std::int64_t token_bytes = KvBytesPerToken(deployment.config.system.model_spec);
    observers.push_back(&transfers.emplace(static_cast<double>(token_bytes)));
  }
  observers.insert(observers.end(), watchers.observers.begin(), watchers.observers.end());
}

RunMetrics::RunMetrics(const Deployment& deployment, const RunWatchers& watchers)
    : meters_(std::make_unique<Meters>(deployment, watchers)) {}
RunMetrics::~RunMetrics() = default;

std::span<RunObserver* const> RunMetrics::observers() const { return meters_->observers; }
std::int64_t RunMetrics::arrived() const { return meters_->tracker.arrived(); }
RequestTracker& RunMetrics::tracker() { return meters_->tracker; }
PlanDigest& RunMetrics::digest() { return meters_->digest; }

LogPlayer* RunMetrics::ReplicaPlayer() {
  Meters& meters = *meters_;
  if (meters.watched || meters.by_tenant || meters.transfers) return nullptr;
  return &meters.player.emplace(meters.listeners);
}

std::vector<double> RunMetrics::Power(Duration interval, std::size_t points) const {
  return meters_->energy ? meters_->energy->Power(interval, points) : std::vector<double>();
}

Summary RunMetrics::Summarise() {
  Meters& meters = *meters_;
  Summary summary = meters.metrics.Summarise();
  const MetricWriter out(summary);
  meters.overload.Summarise(out);
  if (meters.slots) meters.slots->Summarise(out);
  SummariseDevices(out, meters.devices, summary.Number("request_throughput"),
                   summary.Number("output_throughput"));
  if (meters.energy) meters.energy->Summarise(out);
  if (meters.by_tenant) meters.fairness.Summarise(out);
  if (meters.replicas) meters.replicas->Summarise(out);
  if (meters.groups) meters.groups->Summarise(out);
  if (meters.transfers) meters.transfers->Summarise(out);
  meters.digest.Summarise(out);
  return summary;
}

}  // namespace twin::run
