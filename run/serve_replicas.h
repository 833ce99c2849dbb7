// Serves the workload of a simulated or emulated world with the engines of a deployment.
#pragma once

#include "run/deployment.h"
#include "run/run_control.h"
#include "run/run_metrics.h"
#include "sched/world.h"

namespace twin::sim {
class EmulatedWorld;
class SimWorld;
}  // namespace twin::sim

namespace twin::run {

// A simulated world and what stands around it. Borrows everything.
struct ServedWorld {
  World& outer;  // passes all calls on to `simulated`, or is `simulated`
  sim::SimWorld& simulated;
  const sim::EmulatedWorld* emulated;  // null unless `simulated` runs at wall-clock time
};

// Serves the workload to its end with the deployment's engine, or with all its replicas: replica by
// replica on `threads` threads where these can be served separately (replica_windows.h), with the
// same results. `metrics` see the run. Reports to `control` how far the run is, and steps beyond
// the range of the cost model. Returns true if `control` or the emulated world ended the run early.
// REQUIRES: nothing has happened in the world. Throws InputError, InvariantViolation, and
// PolicyFailure for an exception of the caller's policy.
bool ServeReplicas(const Deployment& deployment, const ServedWorld& world, RunMetrics& metrics,
                   RunControl& control, int threads);

}  // namespace twin::run
