// Runs the replications of points. Objects that runs of one point share are made once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/study/study.h"
#include "apps/study/study_runner.h"
#include "run/deployment.h"
#include "run/run_control.h"
#include "run/run_outcome.h"

namespace twin::run {

// Thread-safe. Points should come in rising order: points far below the latest one are forgotten.
class PointRunner {
 public:
  // `points_in_flight`: number of points that may run at the same time. Borrows the study and the
  // options.
  PointRunner(const Study& study, const StudyRunOptions& options, std::size_t points_in_flight)
      : study_(study), options_(options), points_in_flight_(points_in_flight) {}

  // Runs these replications of one point. Fewer rows than replications: `control` asked to stop.
  std::vector<StudyRow> Run(std::size_t point, std::span<const std::uint32_t> replications,
                            RunControl& control);

 private:
  // State that the runs of a point share, made by the first of them.
  struct Shared {
    std::mutex making;
    bool made = false;
    Deployment deployment;
    std::string error;  // why there is none
  };
  // Number of requests that the metrics leave out, and the rule for it.
  struct Warmup {
    std::int64_t requests = 0;
    std::string rule = "none";
  };
  // One for all points that differ in their base alone, found by the first of them.
  struct SharedWarmup {
    std::mutex making;
    std::optional<Warmup> found;
  };

  [[nodiscard]] bool UsesMser() const { return study_.config().warmup == WarmupRule::kMser5; }
  std::shared_ptr<Shared> Find(std::size_t point);
  std::shared_ptr<SharedWarmup> FindSharedWarmup(std::size_t combination);
  [[nodiscard]] Deployment Make(std::size_t point);
  void MakeOnce(std::size_t point, Shared& shared, RunControl& control);
  bool RunRow(const Deployment& deployment, const Warmup& warmup, StudyRow& row,
              RunControl& control);
  RunOutcome RunOnce(const Deployment& deployment, const StudyRow& row, RunControl& control);
  // Nothing if `control` asked to stop.
  std::optional<Warmup> WarmupOfPoint(std::size_t point, RunControl& control);
  std::optional<Warmup> WarmupOfCombination(std::size_t combination, RunControl& control);
  std::optional<Warmup> WarmupOfDeployment(const Deployment& deployment, RunControl& control) const;

  const Study& study_;
  const StudyRunOptions& options_;
  const std::size_t points_in_flight_;
  CostCache costs_;
  std::mutex mutex_;  // guards both
  std::map<std::size_t, std::shared_ptr<Shared>> shared_;
  std::map<std::size_t, std::shared_ptr<SharedWarmup>> warmups_;  // by combination of axis values
};

}  // namespace twin::run
