#include "apps/predict/predict_steps.h"

#include <array>

#include "apps/predict/prediction_file.h"
#include "apps/predict/step_table.h"
#include "core/input_error.h"
#include "core/step_parts.h"
#include "run/measured_run.h"
#include "run/run_control.h"
#include "sim/cost/dataflow_config.h"

namespace twin::run {
namespace {

constexpr std::uint64_t kStepsPerReport = 4096;

void AddRow(std::vector<BreakdownRow>& rows, std::string_view name, double seconds,
            double log_sd = 0) {
  if (seconds != 0) rows.push_back({std::string(name), seconds, log_sd});
}

}  // namespace

std::uint64_t PredictSteps(const sim::StepModel& model, const OperationTableFiles& files,
                           RunControl& control) {
  CsvTable table(files.in, StepTableColumns());
  PredictionFile out(files.out, table);
  StepTimeline timeline;
  std::uint64_t rows = 0;
  while (table.Next()) {
    EndIfStopped(control);
    const StepRow row = ReadStepRow(table);
    sim::StepInterval step;
    if (row.totals.tokens() > 0) {
      double rested = 0;
      for (int i = 0; i < model.stages(); ++i) {
        rested += model.Times(row.totals, i, 0, 0).total();
      }
      const StepTimeline::Begin begin = timeline.BeginOf(row, model.memory(), rested);
      step = model.Interval(row.totals, begin.heat, begin.last_step);
      timeline.Advance(row, model.memory(), model.ComputeShare(row.totals), rested);
    }
    out.Add(1e6 * step.seconds, 1e6 * step.low, 1e6 * step.high);
    if (++rows % kStepsPerReport == 0) control.OnProgress("steps", rows, 0);
  }
  control.OnProgressEnd();
  out.Commit();
  return rows;
}

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

std::vector<StageBreakdown> BreakDownStages(const ExperimentConfig& config,
                                            const StepTotals& totals) {
  if (config.cost.If<sim::DataflowCostConfig>() == nullptr) {
    throw InputError(InputError::Kind::kUsage, "cost",
                     "is not dataflow; allowed: an experiment on a dataflow machine");
  }
  const SystemConfig& system = config.system;
  constexpr std::int64_t kNoSwaps = 1;
  const sim::DataflowCost cost(system.model_spec, system.hardware_spec, system.parallelism,
                               kNoSwaps);
  std::vector<StageBreakdown> rows;
  for (const auto& [stage, count] : cost.distinct()) {
    rows.push_back({count, stage.devices(), stage.layers(), stage.Seconds(totals)});
  }
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
