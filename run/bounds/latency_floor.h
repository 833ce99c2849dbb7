// Clairvoyant lower bounds on mean latencies and on the makespan of a workload: no scheduler does
// better on this device with this memory, even if it knows everything. Proofs: docs/bounds.md.
#pragma once

#include <cstdint>
#include <span>

#include "run/bounds/work_floor.h"

namespace twin::run {

struct Job {
  double arrival_s = 0;
  double work_s = 0;
};

// The least sum of times from arrival to completion, in seconds, on a server that does one second
// of work per second and may be shared in any way: shortest remaining processing time first
// (Schrage, Operations Research 16(3), 1968). `jobs` in order of arrival.
double LeastTotalFlow(std::span<const Job> jobs);

// The time at which such a server has done all work.
double LeastEnd(std::span<const Job> jobs);

struct LatencyFloor {
  double mean_ttft_s = 0;
  double mean_e2el_s = 0;
  double makespan_s = 0;  // from the first arrival to the last end
};

// The bounds of `requests`, which are in order of arrival; zeros if there are none.
LatencyFloor FloorOf(std::span<const RequestWork> requests, WorkFloor& floor);

}  // namespace twin::run
