// The interface between the scheduler and the simulated or real machine that it schedules.
#pragma once

#include "core/check.h"
#include "sched/event.h"
#include "sched/kv_transfer.h"
#include "sched/step_plan.h"

namespace twin {

// Owns the clock, the arrivals, the true output lengths, and the execution of steps.
class World {
 public:
  virtual ~World() = default;

  // Returns the next instant at which something happened. A simulation jumps to it; a real world
  // waits for it. If nothing happens by `wake_at`, the instant is that time, or the first moment
  // after it, and its event is a WakeUp. `now` never decreases. An instant without events ends the
  // run.
  virtual Instant Advance(TimePoint wake_at) = 0;

  // Starts a step and returns without waiting for it; a later Advance() reports its StepFinished.
  // Borrows the plan until then.
  virtual void Launch(const StepPlan& plan) = 0;

  // Starts to copy keys and values between two replicas and returns without waiting for it; a later
  // Advance() reports its TransferFinished. Borrows the transfer's blocks until then.
  // Called only by clusters that separate prefill from decode.
  virtual void Transfer(const KvTransfer& /*transfer*/) { CHECK(false); }
};

}  // namespace twin
