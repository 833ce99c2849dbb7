// The runs of a capacity search: metrics by seed and value, each run made once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "run/deployment.h"
#include "run/many/capacity.h"
#include "run/run_control.h"

namespace twin::run {

// A request to stop ends the search from inside.
struct SearchStopped {};

struct CapacityRun {
  std::vector<double> values;  // of the bounded metrics, by bound; NaN: the metric has no value
  std::int64_t arrived = 0;    // requests
  bool saturated = false;      // the run's own verdict is yes
};

// `x` is the value of the setting, or its negative if the question asks for the smallest value.
class CapacityRuns {
 public:
  // Borrows all three.
  CapacityRuns(const ExperimentTemplate& experiment, const CapacityQuestion& question,
               RunControl& control);

  // workload.requests of the experiment; 0: as many as its trace has.
  [[nodiscard]] std::int64_t own_requests() const { return own_requests_; }

  // Starts again with runs of this length. Earlier runs are forgotten, but stay counted.
  void SetRequests(std::int64_t requests);
  [[nodiscard]] std::int64_t requests() const { return requests_; }
  // The fewest requests that arrived in a run of this length at x: less than requests() if a trace
  // or a duration ended before. REQUIRES: a run was made there.
  [[nodiscard]] std::int64_t FewestArrived(double x) const;

  // Whether most of the runs of this length at x are saturated.
  [[nodiscard]] bool IsSaturated(double x) const;

  // The value that a run is made with: rounded for fields of whole numbers, and to 12 digits.
  [[nodiscard]] double Rounded(double x) const;
  [[nodiscard]] bool whole() const { return whole_; }

  // Makes the missing runs of seeds 0..seeds-1 at x, in parallel. Throws SearchStopped, also if
  // nothing is missing, or what a run throws.
  void Run(double x, std::size_t seeds);
  // Values of the bounded metrics of a run that was made, by bound; a metric without a value breaks
  // its bound: NaN.
  [[nodiscard]] const std::vector<double>& Made(double x, std::size_t seed) const {
    return made_[seed].at(x).values;
  }
  // Whether the run was made.
  [[nodiscard]] bool Has(double x, std::size_t seed) const { return made_[seed].contains(x); }

  [[nodiscard]] std::int64_t runs() const { return count_; }

 private:
  [[nodiscard]] Deployment DeploymentAt(double x);
  [[nodiscard]] CapacityRun Measure(const Deployment& deployment, std::size_t seed,
                                    RunControl& control) const;

  const ExperimentTemplate& experiment_;
  const CapacityQuestion& question_;
  RunControl& control_;
  CostCache costs_;
  const bool whole_;
  std::function<int()> fork_;  // null: the runs share the process (forked_runs.h)
  std::int64_t own_requests_ = 0;
  std::int64_t requests_ = 0;
  std::vector<std::map<double, CapacityRun>> made_;  // by seed, then x
  std::int64_t count_ = 0;                           // of runs
};

}  // namespace twin::run
