// Computes the digest of a run's decisions and the metrics that every run has. Writes no file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/time.h"
#include "run/deployment.h"
#include "run/record/summary.h"

namespace twin {
class LogPlayer;
class PlanDigest;
class RequestTracker;
class RunListener;
class RunObserver;
struct FurtherColumns;
struct MetricsConfig;
struct TrackerConfig;
}  // namespace twin

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
  ~RunMetrics();
  RunMetrics(const RunMetrics&) = delete;
  RunMetrics& operator=(const RunMetrics&) = delete;

  // Observers of the run, in the order in which they see an event. Valid while this object lives.
  [[nodiscard]] std::span<RunObserver* const> observers() const;

  [[nodiscard]] std::int64_t arrived() const;
  [[nodiscard]] RequestTracker& tracker();

  // Replays the logs of replicas into the metrics. Null if a listener must see events in order of
  // time.
  LogPlayer* ReplicaPlayer();
  // Takes plans of different replicas in any order, also from several threads at once.
  [[nodiscard]] PlanDigest& digest();

  // Mean watts of all devices in windows from the start of the run, after it; empty if they are not
  // known. `interval`: metrics.series_interval_s, doubled any number of times.
  [[nodiscard]] std::vector<double> Power(Duration interval, std::size_t points) const;

  // REQUIRES: called once, after the run.
  Summary Summarise();

 private:
  struct Meters;
  const std::unique_ptr<Meters> meters_;
};

}  // namespace twin::run
