// Recorded steps of a measured run beside what the cost model predicts for the same batches, and
// beside the steps of the simulated run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/validate/simulated_clients.h"
#include "run/deployment.h"
#include "run/record/table.h"
#include "traces/benchmark_run.h"
#include "traces/step_records.h"

namespace twin::apps {

// Steps of one kind. Times are means in ms.
struct StepClass {
  std::string name;
  std::int64_t steps = 0;
  double measured_ms = 0;
  double predicted_ms = 0;
  double median_error_percent = 0;  // of single steps, without their signs

  [[nodiscard]] double percent() const { return 100 * (predicted_ms / measured_ms - 1); }
};

struct StepComparison {
  std::vector<StepClass> classes;  // decode only, with prompts, each by size, and all
  std::vector<std::string> lines;  // batches, queues and gaps, measured and simulated
  // Waiting and prefill, means over the run's requests by Little's law: the number of requests that
  // wait or prefill in a step, times the time of the step. Without the time from an arrival to the
  // next planning, on both sides. Empty if `missing` says what the records lack.
  TtftParts measured_parts;
  TtftParts simulated_parts;
  std::string missing;
  std::string csv;  // a row per step
};

// Work that the requests of the measured run needed.
struct MeasuredWork {
  double requests = 0;  // that completed
  double decodes = 0;   // tokens of their answers but the first ones
};

// Throws InputError (usage) as StepPredictor does.
StepComparison CompareSteps(const StepRecords& records, const run::Deployment& deployment,
                            const SimulatedSteps& simulated, const MeasuredWork& work);

Table StepTable(std::span<const StepClass> classes);

}  // namespace twin::apps
