// A table of steps: the work of each step, and perhaps its time.
//
// Columns: decode_reqs, decode_context_tokens, prefill_reqs, prefill_tokens. Optional:
//   prefill_context_tokens  keys that the chunks read, themselves included; without it, chunks
//                           start at the beginning of their prompts
//   duty                    recent load of the device at the begin of the step, 0 (idle) to 1
//   t_us                    end of the step; then rows are one run, in its order, and give the
//                           device its state, unless there is a column `duty`
//   iter_us, clean          measured time of the step, and 1 if the step is whole (for fits)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/csv.h"
#include "sched/step_plan.h"
#include "sim/cost/device_state.h"
#include "sim/devices/step_model.h"

namespace twin::run {

struct StepRow {
  StepTotals totals;
  std::optional<double> duty;
  std::optional<double> end_s;
  std::optional<double> measured_s;  // of clean rows
};

// Columns that every table has.
const std::vector<std::string_view>& StepTableColumns();

// Reads the current row. Throws InputError with file, line and field.
StepRow ReadStepRow(const CsvTable& table);

// Follows the state of a device through the rows of a table.
class StepTimeline {
 public:
  struct Begin {
    double heat = 0;
    double last_step = 0;  // seconds; 0: none, or the device was idle
  };

  // The state in which the step of `row` begins, if it takes about `predicted_s`: directly after
  // the row before, unless the device must have been idle between them.
  [[nodiscard]] Begin BeginOf(const StepRow& row, const sim::HeatMemory& memory,
                              double predicted_s) const;
  // Moves to the end of the row, whose load is `load`.
  void Advance(const StepRow& row, const sim::HeatMemory& memory, double load, double predicted_s);

 private:
  [[nodiscard]] double BeginSeconds(const StepRow& row, double predicted_s) const;

  std::optional<double> end_s_;  // of the row before
  double heat_ = 0;              // there
  double last_step_ = 0;
};

}  // namespace twin::run
