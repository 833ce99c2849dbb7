// Why a measured run differs from its simulation: settings that would explain it, each of them
// simulated.
//
// Every candidate is one run with one setting changed: the token budget, the limit of sequences,
// the KV blocks, a prefix that all prompts share, the device, its ranks, formats of 8 bits,
// captured graphs, asynchronous scheduling, the prefix cache. The distance of a run from the
// measured one is the root mean square of ln(simulated / measured) over the means and percentiles
// of TTFT, TPOT and E2E, and over the TTFT and E2E of each request where the k-th request is the
// same one on both sides. A candidate is a cause only if its distance is at most half of that
// without it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "apps/validate/measured_load.h"
#include "apps/validate/measured_system.h"
#include "apps/validate/simulated_clients.h"
#include "run/client_metrics.h"
#include "run/cost_cache.h"
#include "run/deployment.h"
#include "run/run_control.h"
#include "traces/benchmark_run.h"

namespace twin::apps {

struct Cause {
  std::string text;          // "--max-num-seqs 8"
  double error_percent = 0;  // typical error of a metric with it: exp(distance) - 1
  double waiting_ms = 0;     // of TTFT, mean, in the simulation with it
  double prefill_ms = 0;
};

struct CauseSearch {
  double error_percent = 0;   // without any change
  std::string measured_fact;  // what the measured run itself shows; empty: nothing
  std::vector<Cause> causes;  // those that explain the run equally well, the likeliest first
  std::size_t tried = 0;      // simulations
};

// Both sides of the comparison. Borrows all members.
struct CauseQuestion {
  const MeasuredSystem& system;
  const Replay& replay;
  const run::Deployment& deployment;
  const std::vector<BenchmarkRequest>& measured;  // CompletedOf(); empty without times
  const run::MetricValues& measured_values;
  const SimulatedClients& simulated;  // without a change
  bool paired = false;                // the k-th request is the same one on both sides
  bool has_options = false;           // the system comes from options
  // Writes the load with this share of every prompt in common, and returns the file.
  std::function<std::filesystem::path(double share)> shared_load;
};

// Simulates about 60 runs on all cores. Throws std::runtime_error once `control` asks to stop.
CauseSearch FindCauses(const CauseQuestion& question, run::CostCache& costs,
                       run::RunControl& control);

// One or two lines for people: the cause, or that nothing explains the error; and the parts of TTFT
// without and with the first cause.
std::vector<std::string> CauseLines(const CauseSearch& search, const SimulatedClients& simulated);

// The most requests that had their first token and not yet their last one, and the most that had
// been sent and had not ended. {0, 0} without times.
struct MostAtOnce {
  std::size_t generating = 0;
  std::size_t sent = 0;
};
MostAtOnce MostAtOnceOf(const std::vector<BenchmarkRequest>& requests);

}  // namespace twin::apps
