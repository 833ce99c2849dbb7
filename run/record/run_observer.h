// The interface of everything that watches a run: metrics, files, traces. Observers never influence
// the run.
#pragma once

#include "core/time.h"
#include "sched/event.h"
#include "sched/kv_transfer.h"
#include "sched/step_plan.h"
#include "sched/streak_part.h"

namespace twin {

// Called in the order of the run. All arguments are borrowed for the call, except that a plan stays
// valid until the OnInstant that carries its StepFinished has returned.
class RunObserver {
 public:
  virtual ~RunObserver() = default;

  // Before the engine handles the instant's events.
  virtual void OnInstant(const Instant& instant) = 0;

  // Before the world launches the plan, at the time `now` of the latest instant.
  virtual void OnPlan(TimePoint now, const StepPlan& plan) = 0;

  // Whether OnStreak() may take the place of OnInstant() and OnPlan() for steps of decode streaks.
  // One observer that does not take them makes the run call all observers step by step.
  [[nodiscard]] virtual bool takes_streaks() const { return false; }
  // After the engine has planned the part. The plans that were in flight are void; those that are
  // now lie in their places (World::Continued). REQUIRES: takes_streaks().
  virtual void OnStreak(const StreakPart& /*part*/) {}

  // Before the world begins the transfer, after the plans of the instant.
  virtual void OnTransfer(TimePoint /*now*/, const KvTransfer& /*transfer*/) {}
};

}  // namespace twin
