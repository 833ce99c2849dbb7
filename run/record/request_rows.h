// requests.csv: one row per request, in the order in which they leave.
#pragma once

#include <iosfwd>

#include "core/csv.h"
#include "run/record/csv_columns.h"
#include "run/record/run_listener.h"

namespace twin {

// Columns: RequestColumns(further) of csv_columns.h; latencies are the client's. Cells that are
// undefined for a request are empty. Times are exact to the nanosecond, except tpot_ms, which is
// rounded to it. Borrows the stream.
class RequestRows : public RunListener {
 public:
  // Writes the line of column names.
  explicit RequestRows(std::ostream& out, const FurtherColumns& further = {});

  void OnEnded(const RequestLife& life) override { Write(life); }

  // For requests that are unfinished when the run ends; ended ones are written by OnEnded.
  void Write(const RequestLife& life);

 private:
  std::ostream& out_;
  FurtherColumns further_;
  CsvLine line_;
};

}  // namespace twin
