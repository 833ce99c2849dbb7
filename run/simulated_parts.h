// Writes the parts of simulated step times, in the form that real runs have.
#pragma once

#include "run/part_totals.h"
#include "sched/world.h"
#include "sim/cost/step_cost.h"
#include "sim/world/sim_world.h"

namespace twin::run {

// True if parts.csv of a simulation can be written: one pipeline stage, and a cost model that
// distinguishes parts.
bool HasParts(const sim::StepCost& cost);

// Passes all calls on to the simulated world, and the times of each step to `totals`. Borrows all
// arguments. REQUIRES: HasParts(cost).
class PartsWatchingWorld final : public World {
 public:
  PartsWatchingWorld(sim::SimWorld& inner, const sim::StepCost& cost, PartTotals& totals)
      : inner_(inner), cost_(cost), totals_(totals) {}

  Instant Advance(TimePoint wake_at) override { return inner_.Advance(wake_at); }
  void Launch(const StepPlan& plan) override;

 private:
  sim::SimWorld& inner_;
  const sim::StepCost& cost_;
  PartTotals& totals_;
  TimePoint free_ = kTimeZero;  // end of the step before on the device
};

}  // namespace twin::run
