// The interface between the scheduler and the simulated or real machine that it schedules.
#pragma once

#include "core/check.h"
#include "sched/event.h"
#include "sched/kv_transfer.h"
#include "sched/step_plan.h"
#include "sched/streak_part.h"

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

  // Advance() and Launch() in one for up to `steps_max` steps of a decode streak: appends the
  // moments at which nothing but the streak goes on, and the blocks that they fill, to `part`,
  // which is empty. Without any (the default), Advance() must be called. REQUIRES: `latest` was
  // launched last and repeats the plan before it, and no plan is due.
  virtual void Continue(const StepPlan& /*latest*/, std::int64_t /*steps_max*/,
                        StreakPart& /*part*/) {}
  // The engine has planned the steps of the part that the world began. Plans in flight lie where
  // their predecessors lay: that of step i where step i - k was, if k can be in flight.
  virtual void Continued(const StreakPart& /*part*/) {}

  // Starts to copy keys and values between two replicas and returns without waiting for it; a later
  // Advance() reports its TransferFinished. Borrows the transfer's blocks until then.
  // Called only by clusters that separate prefill from decode.
  virtual void Transfer(const KvTransfer& /*transfer*/) { CHECK(false); }
};

}  // namespace twin
