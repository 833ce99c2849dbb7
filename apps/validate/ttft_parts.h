// Where the time until the first token goes, measured and simulated.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "traces/benchmark_run.h"

namespace twin::apps {

// The parts that the file of the run holds: those of the run as a whole, or the mean waiting of
// requests of which each has its waiting and its TTFT.
TtftParts MeasuredTtftParts(const BenchmarkRun& run, std::span<const BenchmarkRequest> completed);

// Means of TTFT in ms, where they are known.
struct TtftMeans {
  std::optional<double> measured_ms;
  double simulated_ms = 0;
};

// ", measured / simulated: waiting 12 / 10 ms, ...": the measured parts beside the simulated ones.
// If the measured prefill is not known, the rest of TTFT stands for prefill and boundary. Empty
// without a measured waiting. REQUIRES: `simulated` has the parts of `measured`.
std::string TtftPartsLine(const TtftParts& measured, const TtftParts& simulated,
                          const TtftMeans& ttft);

}  // namespace twin::apps
