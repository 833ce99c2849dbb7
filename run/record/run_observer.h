// The interface of everything that watches a run: metrics, files, traces. Observers never influence
// the run.
#pragma once

#include "core/time.h"
#include "sched/event.h"
#include "sched/kv_transfer.h"
#include "sched/step_plan.h"

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

  // Before the world begins the transfer, after the plans of the instant.
  virtual void OnTransfer(TimePoint /*now*/, const KvTransfer& /*transfer*/) {}
};

}  // namespace twin
