// parts.csv: where the time of each step went, one row per step in the order of the steps.
#pragma once

#include <iosfwd>

#include "core/ids.h"
#include "core/step_times.h"
#include "record/csv_line.h"

namespace twin {

// Columns: PartColumns() of csv_columns.h. Borrows the stream.
class PartRows {
 public:
  // Writes the line of column names.
  explicit PartRows(std::ostream& out);

  void Add(StepId id, const StepTimes& times);

 private:
  std::ostream& out_;
  CsvLine line_;
};

}  // namespace twin
