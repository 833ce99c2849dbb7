// Runs of an engine or a cluster in a HostileWorld, with an audit after every instant.
#pragma once

#include <stdexcept>
#include <vector>

#include "run/hostile/hostile_world.h"
#include "run/record/run_observer.h"

namespace twin {

class Cluster;
class Engine;

// A scheduler broke a rule that the engine itself does not check. The message is one line.
class HostileBreach : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Serve the requests of the world that the options describe, and drain the scheduler. Throw
// HostileBreach or what the scheduler throws. REQUIRES: pools of the options' sizes.
void RunHostile(const HostileOptions& options, Engine& engine, RunObserver& observer);
// `engines`: those of the cluster, in order.
void RunHostile(const HostileOptions& options, Cluster& cluster,
                const std::vector<const Engine*>& engines, RunObserver& observer);

}  // namespace twin
