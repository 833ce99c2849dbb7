// steps.csv: a row per step, in the order in which they end.
#pragma once

#include <iosfwd>

#include "record/csv_line.h"
#include "record/run_listener.h"

namespace twin {

// Columns: step, planned_at_s, started_s, finished_s, duration_ms (finished - started),
// prefill_tokens, decode_tokens, padding_tokens, recomputed_tokens, sequences, context_tokens (keys
// that attention reads), preempted, free_blocks, running, waiting, swapped (all four when planning
// ended). Borrows the stream.
class StepRows : public RunListener {
 public:
  // Writes the line of column names.
  explicit StepRows(std::ostream& out);

  void OnStepEnded(const EndedStep& step) override;

 private:
  std::ostream& out_;
  CsvLine line_;
};

}  // namespace twin
