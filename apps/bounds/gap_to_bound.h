// How far the latencies of a simulated run are from what no scheduler can beat.
#pragma once

#include <cstdint>
#include <string>

#include "apps/bounds/latency_floor.h"
#include "run/deployment.h"
#include "run/run_control.h"

namespace twin::run {

struct GapToBound {
  std::string policy;
  std::int64_t requests = 0;  // that completed, on which all values are
  std::int64_t left_out = 0;  // rejected or cancelled
  LatencyFloor reached;       // by the policy
  LatencyFloor floor;
  bool interrupted = false;
};

// Simulates the deployment, and bounds the latencies of the requests that completed, with the
// arrivals, output lengths and memory of that run.
// Throws InputError (usage) unless it is of one replica without pipeline stages or speculation, and
// its cost model is constant, linear, or the roofline of a dense model without sliding windows; and
// what Simulate throws.
GapToBound MeasureGapToBound(const Deployment& deployment, RunControl& control);

}  // namespace twin::run
