// Says when a simulation left the range that its cost model was measured in.
#pragma once

#include <cstdint>
#include <ostream>

#include "record/run_observer.h"
#include "sim/cost/step_cost.h"

namespace twin::apps {

// Counts the steps of a run that lie outside. Borrows the cost model.
class CostRangeWatch final : public RunObserver {
 public:
  explicit CostRangeWatch(const sim::StepCost& cost) : cost_(cost) {}

  void OnInstant(const Instant& /*instant*/) override {}
  void OnPlan(TimePoint /*now*/, const StepPlan& plan) override {
    ++steps_;
    if (!cost_.Covers(plan.totals)) ++outside_;
  }

  // One line, if there were any.
  void Report(std::ostream& out) const {
    if (outside_ == 0) return;
    out << "warning: " << outside_ << " of " << steps_
        << " steps were larger than any that cost.fitted was measured on: their times are "
           "extrapolated\n";
  }

 private:
  const sim::StepCost& cost_;
  std::int64_t steps_ = 0;
  std::int64_t outside_ = 0;
};

}  // namespace twin::apps
