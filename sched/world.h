// The seam between decisions and what they act upon.
#pragma once

#include "sched/event.h"
#include "sched/step_plan.h"

namespace twin {

// Owns the clock, the arrivals, the truth about output lengths, and the execution of steps.
class World {
 public:
  virtual ~World() = default;

  // The next instant at which something happened: jumps in simulation, blocks in reality. `now`
  // never decreases. No events: nothing more will happen.
  virtual Instant Advance() = 0;

  // Starts a step and returns at once; its StepFinished comes from a later Advance(). Borrows the
  // plan until then.
  virtual void Launch(const StepPlan& plan) = 0;
};

}  // namespace twin
