// Metrics of each group of replicas, for groups that differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "run/record/metric_writer.h"
#include "run/record/request_metrics.h"
#include "run/record/run_listener.h"
#include "run/record/step_work.h"

namespace twin {

struct MeteredGroup {
  std::int32_t replicas = 1;
  std::int32_t kv_blocks = 0;  // usable blocks of a replica
};

// A request belongs to its last replica: the one that decodes it, if another one prefills it. A
// request that was never admitted belongs to no group. Requests count if they lie in the measured
// window, steps always.
// Rates are over the run's RateWindow.
// Memory: constant per group and replica. Cost: constant per step and request.
class GroupMeter : public RunListener {
 public:
  // Groups in the order of their replicas.
  GroupMeter(const std::vector<MeteredGroup>& groups, const RequestMetrics::Config& config);

  void OnArrived(TimePoint now, const RequestLife& life) override;
  void OnStepEnded(const EndedStep& step) override;
  void OnLoad(TimePoint from, TimePoint to, const Load& load) override;
  void OnEnded(const RequestLife& life) override;

  // Adds the metrics with kByGroup but energy_joules, as group_N_KEY for group N from 0.
  void Summarise(const MetricWriter& out) const;

 private:
  struct Group {
    MeteredGroup of;
    RequestMetrics requests;
  };
  [[nodiscard]] Group& GroupOf(std::int32_t replica) {
    return groups_[group_of_.at(static_cast<std::size_t>(replica))];
  }

  std::vector<Group> groups_;
  std::vector<std::size_t> group_of_;  // by replica
  std::vector<StepWork> work_;         // by replica
  RateWindow window_;
  Duration time_{0};
  TimePoint until_ = kTimeZero;
};

}  // namespace twin
