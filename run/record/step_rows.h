// steps.csv: one row per step, in the order in which they end.
#pragma once

#include <iosfwd>

#include "core/csv.h"
#include "run/record/csv_columns.h"
#include "run/record/run_listener.h"

namespace twin {

// Columns: StepColumns(further) of csv_columns.h. Borrows the stream.
class StepRows : public RunListener {
 public:
  // Writes the line of column names.
  explicit StepRows(std::ostream& out, const FurtherColumns& further = {});

  void OnStepEnded(const EndedStep& step) override;

 private:
  std::ostream& out_;
  FurtherColumns further_;
  CsvLine line_;
};

}  // namespace twin
