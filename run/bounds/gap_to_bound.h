// How far the latencies of a simulated run are from what no scheduler can beat.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "run/bounds/latency_floor.h"
#include "run/bounds/work_floor.h"
#include "run/deployment.h"
#include "run/run_control.h"

namespace twin::run {

struct GapToBound {
  std::string policy;
  std::int64_t requests = 0;  // completed requests, which all values describe
  std::int64_t left_out = 0;  // rejected or cancelled
  LatencyFloor reached;       // by the policy
  LatencyFloor floor;
  bool interrupted = false;
};

// The floors of deployments, each made once for all that have equal costs and caches: making one
// takes a tenth of a second.
class WorkFloors {
 public:
  // REQUIRES: the deployment is simulated.
  WorkFloor& Of(const Deployment& deployment);

 private:
  struct Held {
    std::shared_ptr<const sim::StepCost> cost;  // that the floor borrows
    WorkFloor floor;
  };
  std::map<std::string, Held> held_;  // by the text of the system and the cost
};

// Simulates the deployment, and bounds the latencies of the requests that completed, with the
// arrivals, output lengths and memory of that run.
// Throws InputError (usage) unless the deployment has one replica, no pipeline stages, no
// speculation, and a cost model that is constant, linear, or the roofline of a dense model without
// sliding windows. Also throws what Simulate throws.
GapToBound MeasureGapToBound(const Deployment& deployment, RunControl& control, WorkFloors& floors);

}  // namespace twin::run
