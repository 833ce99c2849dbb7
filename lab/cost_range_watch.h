// Says when a simulation left the range that its cost model was measured in.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lab/run_control.h"
#include "record/run_observer.h"
#include "sim/cost/step_cost.h"

namespace twin::lab {

// Counts the steps of a run that lie outside. Borrows the cost models, one per replica. Plans of
// different replicas may come on several threads at once.
class CostRangeWatch final : public RunObserver {
 public:
  explicit CostRangeWatch(const std::vector<const sim::StepCost*>& costs) {
    for (const sim::StepCost* const cost : costs) replicas_.push_back({.cost = cost});
  }

  void OnInstant(const Instant& /*instant*/) override {}
  void OnPlan(TimePoint /*now*/, const StepPlan& plan) override {
    Replica& replica = replicas_.at(static_cast<std::size_t>(plan.replica));
    ++replica.steps;
    if (!replica.cost->Covers(plan.totals)) ++replica.outside;
  }

  // One line, if there were any.
  void Report(RunControl& control) const {
    std::int64_t steps = 0;
    std::int64_t outside = 0;
    for (const Replica& replica : replicas_) {
      steps += replica.steps;
      outside += replica.outside;
    }
    if (outside == 0) return;
    control.OnWarning(fmt::format(
        "{} of {} steps were larger than any step that cost.fitted was measured on: their times "
        "are extrapolated",
        outside, steps));
  }

 private:
  struct alignas(64) Replica {
    const sim::StepCost* cost = nullptr;
    std::int64_t steps = 0;
    std::int64_t outside = 0;
  };
  std::vector<Replica> replicas_;
};

}  // namespace twin::lab
