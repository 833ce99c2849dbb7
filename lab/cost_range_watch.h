// Says when a simulation left the range that its cost model was measured in.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "lab/run_control.h"
#include "record/run_observer.h"
#include "sim/cost/step_cost.h"

namespace twin::lab {

// Counts the steps of a run that lie outside. Borrows the cost models, one per replica.
class CostRangeWatch final : public RunObserver {
 public:
  explicit CostRangeWatch(std::vector<const sim::StepCost*> costs) : costs_(std::move(costs)) {}

  void OnInstant(const Instant& /*instant*/) override {}
  void OnPlan(TimePoint /*now*/, const StepPlan& plan) override {
    ++steps_;
    if (!costs_.at(static_cast<std::size_t>(plan.replica))->Covers(plan.totals)) ++outside_;
  }

  // One line, if there were any.
  void Report(RunControl& control) const {
    if (outside_ == 0) return;
    control.OnWarning(fmt::format(
        "{} of {} steps were larger than any step that cost.fitted was measured on: their times "
        "are extrapolated",
        outside_, steps_));
  }

 private:
  std::vector<const sim::StepCost*> costs_;
  std::int64_t steps_ = 0;
  std::int64_t outside_ = 0;
};

}  // namespace twin::lab
