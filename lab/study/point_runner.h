// Runs the replications of points; what runs of one point share is made once.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "lab/deployment.h"
#include "lab/run_control.h"
#include "lab/study/study.h"
#include "lab/study/study_runner.h"

namespace twin::lab {

// Thread-safe. Points should come in rising order: those far behind the latest one are forgotten.
class PointRunner {
 public:
  // `apart`: points that may run at the same time. Borrows the study.
  PointRunner(const Study& study, const StudyRunOptions& options, std::size_t apart)
      : study_(study), options_(options), apart_(apart) {}

  // Runs these replications of one point. Fewer rows than replications: `control` asked to stop.
  std::vector<StudyRow> Run(std::size_t point, std::span<const std::uint32_t> replications,
                            RunControl& control);

 private:
  // What the runs of a point share, made by the first of them.
  struct Shared {
    std::mutex making;
    bool made = false;
    Deployment deployment;
    std::string error;  // why there is none
  };
  // How many requests the metrics leave out, and why.
  struct Warmup {
    std::int64_t requests = 0;
    std::string rule = "none";
  };

  std::shared_ptr<Shared> Find(std::size_t point);
  void Make(std::size_t point, Shared& shared);
  bool RunRow(const Deployment& deployment, const Warmup& warmup, StudyRow& row,
              RunControl& control) const;
  bool FindWarmup(Deployment& deployment, Warmup& warmup, RunControl& control) const;

  const Study& study_;
  const StudyRunOptions& options_;
  const std::size_t apart_;
  CostCache costs_;
  std::mutex mutex_;
  std::map<std::size_t, std::shared_ptr<Shared>> shared_;  // guarded by mutex_
};

}  // namespace twin::lab
