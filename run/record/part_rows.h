// parts.csv: where the time of each step went, one row per step, of a replica in the order of
// its steps.
#pragma once

#include <cstdint>
#include <iosfwd>

#include "core/csv.h"
#include "core/ids.h"
#include "core/step_times.h"
#include "run/record/csv_columns.h"

namespace twin {

// Columns: PartColumns(further) of csv_columns.h. Borrows the stream.
class PartRows {
 public:
  // Writes the line of column names.
  explicit PartRows(std::ostream& out, const FurtherColumns& further = {});

  void Add(std::int32_t replica, StepId id, const StepTimes& times);

 private:
  std::ostream& out_;
  FurtherColumns further_;
  CsvLine line_;
};

}  // namespace twin
