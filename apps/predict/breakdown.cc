#include "apps/predict/breakdown.h"

#include <array>

#include "core/input_error.h"
#include "core/step_parts.h"
#include "run/measured_run.h"

namespace twin::run {
namespace {

void AddRow(std::vector<BreakdownRow>& rows, std::string_view name, double seconds,
            double log_sd = 0) {
  if (seconds != 0) rows.push_back({std::string(name), seconds, log_sd});
}

}  // namespace

std::vector<BreakdownRow> BreakDownStep(const sim::StepModel& model, const StepTotals& totals,
                                        double heat) {
  sim::StageTimes sum;
  for (int stage = 0; stage < model.stages(); ++stage) {
    const sim::StageTimes times = model.Times(totals, stage, heat, 0);
    for (std::size_t i = 0; i < sim::kOperationClassCount; ++i) {
      sum.operations[i] += times.operations[i];
    }
    sum.gap += times.gap;
    sum.clocks += times.clocks;
  }
  const sim::ByOperation<double> spread = model.Spread(totals);
  std::vector<BreakdownRow> rows;
  for (std::size_t i = 0; i < sim::kOperationClassCount; ++i) {
    AddRow(rows, sim::kOperationClassNames[i], sum.operations[i], spread[i]);
  }
  AddRow(rows, "gap", sum.gap);
  AddRow(rows, "clocks", sum.clocks);
  return rows;
}

std::vector<BreakdownRow> BreakDownRun(const std::filesystem::path& run) {
  const std::filesystem::path file = run / "parts.csv";
  if (!std::filesystem::is_directory(run)) {
    throw InputError(InputError::Kind::kUsage, run.string(),
                     "is no folder; allowed: a run directory with parts.csv");
  }
  if (!std::filesystem::exists(file)) {
    throw InputError(InputError::Kind::kUsage, run.string(),
                     "has no parts.csv; allowed: a run with outputs.record on one pipeline stage "
                     "and, if simulated, a cost model that distinguishes parts");
  }
  std::array<double, kStepPartCount> seconds{};
  for (const StepTimes& step : ReadStepTimes(file)) {
    for (std::size_t i = 0; i < kStepPartCount; ++i) seconds[i] += Seconds(step.parts.times[i]);
  }
  std::vector<BreakdownRow> rows;
  for (std::size_t i = 0; i < kStepPartCount; ++i) AddRow(rows, kStepPartNames[i], seconds[i]);
  return rows;
}

}  // namespace twin::run
