// Attribution of a prediction's error to the parts of the prediction.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "run/measured_run.h"
#include "sim/cost/step_cost.h"

namespace twin::run {

// Names as in summary.json.
constexpr std::array<std::string_view, 14> kComparedMetrics = {
    "mean_ttft_ms", "p50_ttft_ms",      "p99_ttft_ms",        "mean_tpot_ms",     "p50_tpot_ms",
    "p99_tpot_ms",  "mean_itl_ms",      "p99_itl_ms",         "mean_e2el_ms",     "p50_e2el_ms",
    "p99_e2el_ms",  "duration_seconds", "request_throughput", "output_throughput"};

// The times that a cost model predicts for the steps of a run.
struct ModelledSteps {
  std::vector<StepParts> steps;  // in the order of planning
  // False: the model does not distinguish parts of the device time; `other` then holds all of it.
  bool by_part = true;
};

ModelledSteps ModelSteps(const MeasuredRun& run, const sim::StepCost& cost);

// The values of kComparedMetrics for a run of the experiment.
std::vector<double> MetricsOf(const MeasuredRun& experiment, const RecordedRun& events);

// How the requests in the measured window ended.
struct Endings {
  std::int64_t completed = 0;
  std::int64_t cancelled = 0;  // their clients gave up

  bool operator==(const Endings&) const = default;
};

Endings EndingsOf(const MeasuredRun& experiment, const RecordedRun& events);

// The error of predicted times at a run's recorded decisions, by cause: arrival_jitter (arrivals
// seen late), host (schedule, build, delivery), each device part that takes time, or `device` if
// the cost model does not distinguish parts, and `boundary` if the experiment has one (without the
// reaction of clients in a closed loop, which belongs to the decisions). The clients that give up
// are a recorded decision as well. Vectors are by metric.
struct Attribution {
  std::vector<std::string> causes;
  std::vector<double> measured;
  std::vector<double> modelled;             // with all times predicted
  std::vector<std::vector<double>> shares;  // by cause; sum to modelled - measured
};

// Shapley shares (shapley.h) over all subsets of causes. Cost: 2^causes passes over the run.
// Throws InputError (data) if parts.csv does not fit the record.
Attribution Attribute(const MeasuredRun& run, const ModelledSteps& modelled);

}  // namespace twin::run
