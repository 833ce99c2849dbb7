// Everything that watches a run: digest, metrics and the files of the run directory.
#pragma once

#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lab/run_directory.h"
#include "proto/experiment_config.h"
#include "proto/perfetto_writer.h"
#include "proto/record_file.h"
#include "record/fairness_meter.h"
#include "record/metrics_collector.h"
#include "record/plan_digest.h"
#include "record/request_rows.h"
#include "record/request_tracker.h"
#include "record/run_observer.h"
#include "record/series.h"
#include "record/step_rows.h"
#include "record/summary.h"
#include "sched/engine.h"

namespace twin::lab {

// What an experiment asks of the metrics of its runs.
MetricsConfig MetricsConfigOf(const ExperimentConfig& config, const EngineConfig& engine);
TrackerConfig TrackerConfigOf(const ExperimentConfig& config, const EngineConfig& engine,
                              Delivery delivery);

class RunObservers {
 public:
  // Opens the files that config.outputs asks for. Borrows the directory.
  RunObservers(const ExperimentConfig& config, const EngineConfig& engine,
               const PolicyTraits& traits, const std::string& resolved,
               const RunDirectory& directory);

  // In the order in which they are told. Valid while this lives.
  [[nodiscard]] std::span<RunObserver* const> list() const { return list_; }

  // Requests that were told so far.
  [[nodiscard]] std::int64_t arrived() const { return tracker_->arrived(); }

  // Closes the files and sums up. REQUIRES: called once, after the run.
  Summary Finish();

 private:
  std::ofstream& Open(const char* name);

  const RunDirectory& directory_;
  const bool by_tenant_;
  MetricsCollector metrics_;
  FairnessMeter fairness_{FairnessConfig{}};
  PlanDigest digest_;
  std::vector<std::unique_ptr<std::ofstream>> files_;
  std::optional<RequestRows> requests_;
  std::optional<StepRows> steps_;
  std::optional<Series> series_;
  std::vector<RunListener*> listeners_;
  std::optional<RequestTracker> tracker_;
  std::vector<std::unique_ptr<RunObserver>> writers_;
  RecordWriter* record_ = nullptr;
  PerfettoWriter* perfetto_ = nullptr;
  std::vector<RunObserver*> list_;
};

}  // namespace twin::lab
