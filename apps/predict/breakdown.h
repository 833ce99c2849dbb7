// Where the time of a step, or of all steps of a run, goes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "sched/step_plan.h"
#include "sim/devices/step_model.h"

namespace twin::run {

struct BreakdownRow {
  std::string name;
  double seconds = 0;
  double log_sd = 0;  // spread of the model; 0 if unknown
};

// The classes of operations of all stages, then `gap` (host and launches that show) and `clocks`
// (lower clocks of a warm device). Rows without time are left out. REQUIRES: the step has work.
std::vector<BreakdownRow> BreakDownStep(const sim::StepModel& model, const StepTotals& totals,
                                        double heat);

// The parts of all steps of a run, summed up from its parts.csv. Throws InputError: (usage) if the
// run has none, (data) if it is damaged.
std::vector<BreakdownRow> BreakDownRun(const std::filesystem::path& run);

}  // namespace twin::run
