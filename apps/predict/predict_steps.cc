#include "apps/predict/predict_steps.h"

#include "apps/predict/prediction_file.h"
#include "apps/predict/step_table.h"
#include "run/run_control.h"

namespace twin::run {
namespace {

constexpr std::uint64_t kStepsPerReport = 4096;

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

}  // namespace twin::run
