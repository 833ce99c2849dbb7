// Simulations whose clients measure what a benchmark tool measures.
#pragma once

#include <cstdint>
#include <vector>

#include "config/experiment_config.h"
#include "run/client_metrics.h"
#include "run/cost_cache.h"
#include "run/run_control.h"
#include "traces/benchmark_run.h"

namespace twin::apps {

struct SimulatedClients {
  std::vector<BenchmarkRequest> requests;  // completed, in the order of CompletedOf(); no gaps
  run::MetricValues itl;                   // mean_itl_ms and further ones
  std::int64_t lost = 0;                   // rejected or cancelled
  // Parts of TTFT, means over `requests`: until the first step with the request, and from there to
  // the first token. The rest is the way between client and engine.
  double waiting_ms = 0;
  double prefill_ms = 0;

  // All metrics of the clients.
  [[nodiscard]] run::MetricValues Values() const;
};

// Simulates the experiments, which must be in a simulated world, on all cores. Warnings of the
// first one reach `control`. Throws InputError, std::runtime_error once `control` asks to stop.
std::vector<SimulatedClients> SimulateClients(const std::vector<ExperimentConfig>& experiments,
                                              run::CostCache& costs, run::RunControl& control);

}  // namespace twin::apps
