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

// The steps of a run as a server that records them sees them.
struct SimulatedSteps {
  std::int64_t decode_steps = 0;  // without prompts
  std::int64_t prompt_steps = 0;
  std::int64_t decodes = 0;  // of all steps
  std::int64_t prompt_tokens = 0;
  double seconds = 0;            // each step from the end of the one before, or from its planning
  double waiting_s = 0;          // sum over steps of waiting requests x time
  double prefill_s = 0;          // sum over steps of requests with a part of their prompt x time
  std::int64_t waiting_max = 0;  // after the planning of a step, in one replica
  std::int64_t completed = 0;    // requests
};

// Simulates the experiment step by step, without a warning. Throws as SimulateClients().
SimulatedSteps SimulateSteps(const ExperimentConfig& experiment, run::CostCache& costs,
                             run::RunControl& control);

}  // namespace twin::apps
