// Computes the digest of a run's decisions and the metrics that every run has. Writes no file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "run/deployment.h"
#include "run/record/csv_columns.h"
#include "run/record/fairness_meter.h"
#include "run/record/group_meter.h"
#include "run/record/log_player.h"
#include "run/record/metrics_collector.h"
#include "run/record/overload_meter.h"
#include "run/record/plan_digest.h"
#include "run/record/replica_meter.h"
#include "run/record/request_tracker.h"
#include "run/record/run_listener.h"
#include "run/record/run_observer.h"
#include "run/record/summary.h"
#include "run/record/transfer_meter.h"

namespace twin::run {

// Whether there is a boundary between clients and engine: in simulated worlds only.
bool HasBoundary(const ExperimentConfig& config);
// Columns that the tables of the experiment's runs have beside the columns of every run.
FurtherColumns FurtherColumnsOf(const ExperimentConfig& config);

// Settings by which an experiment measures its runs.
MetricsConfig MetricsConfigOf(const ExperimentConfig& config, const EngineGroups& engines,
                              Delivery delivery);
TrackerConfig TrackerConfigOf(const ExperimentConfig& config, const EngineGroups& engines,
                              Delivery delivery);

// Watchers of a run beside its metrics. Listeners receive requests, steps and tokens; observers
// receive the bare instants and plans. All are borrowed for the run.
struct RunWatchers {
  std::vector<RunListener*> listeners;
  std::vector<RunObserver*> observers;
};

class RunMetrics {
 public:
  RunMetrics(const Deployment& deployment, const RunWatchers& watchers);
  RunMetrics(const RunMetrics&) = delete;
  RunMetrics& operator=(const RunMetrics&) = delete;

  // Observers of the run, in the order in which they see an event. Valid while this object lives.
  [[nodiscard]] std::span<RunObserver* const> observers() const { return observers_; }

  [[nodiscard]] std::int64_t arrived() const { return tracker_.arrived(); }
  [[nodiscard]] RequestTracker& tracker() { return tracker_; }

  // Replays the logs of replicas into the metrics. Null if a listener must see events in order of
  // time.
  LogPlayer* ReplicaPlayer();
  // Takes plans of different replicas in any order, also from several threads at once.
  [[nodiscard]] PlanDigest& digest() { return digest_; }

  // REQUIRES: called once, after the run.
  Summary Summarise();

 private:
  const bool by_tenant_;
  const std::int64_t devices_;
  MetricsCollector metrics_;
  OverloadMeter overload_;
  FairnessMeter fairness_{FairnessConfig{}};
  std::optional<ReplicaMeter> replicas_;    // only of several replicas
  std::optional<GroupMeter> groups_;        // only of replicas that differ
  std::optional<TransferMeter> transfers_;  // only between prefill and decode
  PlanDigest digest_;
  std::vector<RunListener*> listeners_;
  const bool watched_;
  std::optional<LogPlayer> player_;
  RequestTracker tracker_;
  std::vector<RunObserver*> observers_;
};

}  // namespace twin::run
