// Predicts how long the steps of a table take, and where the time of a step or a run goes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/predict/predict_operations.h"
#include "config/experiment_config.h"
#include "sched/step_plan.h"
#include "sim/cost/dataflow_cost.h"
#include "sim/devices/step_model.h"

namespace twin::run {

// Writes the table `files.in` (step_table.h) with three more columns: predicted_us,
// predicted_low_us and predicted_high_us (a 90 % interval). Returns the number of rows.
// Throws InputError with file, line and field, and ends early as EndIfStopped() does.
std::uint64_t PredictSteps(const sim::StepModel& model, const OperationTableFiles& files,
                           RunControl& control);

struct BreakdownRow {
  std::string name;
  double seconds = 0;
  double log_sd = 0;  // spread of the model; 0 if unknown
};

// The classes of operations of all stages, then `gap` (host and launches that show) and `clocks`
// (lower clocks of a warm device). Rows without time are left out. REQUIRES: the step has work.
std::vector<BreakdownRow> BreakDownStep(const sim::StepModel& model, const StepTotals& totals,
                                        double heat);

// Equal stages of a dataflow machine, and the time of a step in one of them.
struct StageBreakdown {
  std::int32_t count = 0;
  std::int32_t devices = 0;  // of one stage
  std::int32_t layers = 0;
  sim::DataflowSeconds seconds;
};

// The distinct stages of the experiment's deployment, in order. Throws InputError (usage) if its
// cost model is not `dataflow`. REQUIRES: the step has work.
std::vector<StageBreakdown> BreakDownStages(const ExperimentConfig& config,
                                            const StepTotals& totals);

// The parts of all steps of a run, summed up from its parts.csv. Throws InputError: (usage) if the
// run has none, (data) if it is damaged.
std::vector<BreakdownRow> BreakDownRun(const std::filesystem::path& run);

}  // namespace twin::run
