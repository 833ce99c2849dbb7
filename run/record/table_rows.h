// Writers of the rows of requests.csv, steps.csv and parts.csv.
#pragma once

#include <cstdint>
#include <iosfwd>

#include "core/csv.h"
#include "core/ids.h"
#include "core/step_parts.h"
#include "run/record/csv_columns.h"
#include "run/record/run_listener.h"

namespace twin {

// requests.csv: one row per request, in the order in which they leave.
// Columns: RequestColumns(further) of csv_columns.h; latencies are the client's. Cells that are
// undefined for a request are empty. Times are exact to the nanosecond, except tpot_ms, which is
// rounded to it. Borrows the stream.
class RequestRows : public RunListener {
 public:
  // Writes the line of column names.
  explicit RequestRows(std::ostream& out, const FurtherColumns& further = {});

  [[nodiscard]] bool takes_streaks() const override { return true; }
  void OnEnded(const RequestLife& life) override { Write(life); }

  // Writes a request that is unfinished when the run ends; OnEnded() writes ended requests.
  void Write(const RequestLife& life);

 private:
  std::ostream& out_;
  FurtherColumns further_;
  CsvLine line_;
};

// steps.csv: one row per step, in the order in which they end.
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

// parts.csv: the parts of the time of each step, one row per step, of a replica in the order of its
// steps.
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
