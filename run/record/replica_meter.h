// Evenness of the load of a cluster's replicas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "run/record/metric_writer.h"
#include "run/record/run_listener.h"
#include "run/record/step_work.h"

namespace twin {

// The number of replicas of a system or of a group.
void SummariseReplicas(const MetricWriter& out, std::int32_t replicas);

// Counts the work of each replica. Imbalance is the largest value of a replica over the mean of all
// replicas: 1 = all equal, N = one of N does everything.
// Memory: constant per replica. Cost: constant per step and request.
class ReplicaMeter : public RunListener {
 public:
  // REQUIRES: replicas >= 1.
  explicit ReplicaMeter(std::int32_t replicas) : replicas_(static_cast<std::size_t>(replicas)) {}

  void OnStepEnded(const EndedStep& step) override;
  void OnLoad(TimePoint from, TimePoint to, const Load& load) override;
  void OnEnded(const RequestLife& life) override;

  void Summarise(const MetricWriter& out) const;

 private:
  struct Replica {
    std::int64_t requests = 0;  // admitted or rejected there, and ended
    std::int64_t tokens = 0;    // computed or padded
    BusyTime busy;
  };

  std::vector<Replica> replicas_;
  Duration time_{0};
};

}  // namespace twin
