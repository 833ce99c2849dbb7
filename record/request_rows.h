// requests.csv: a row per request, in the order in which they leave.
#pragma once

#include <iosfwd>

#include "record/csv_line.h"
#include "record/run_listener.h"

namespace twin {

// Columns: request, tenant, priority, arrival_s, scheduled_s, first_token_s, finished_s,
// prompt_tokens, output_tokens, cached_tokens, preemptions, queue_ms, ttft_ms, tpot_ms, e2el_ms,
// max_itl_ms, status. Cells that are undefined for a request are empty. Times are exact to the
// nanosecond, except tpot_ms, which is rounded to it. Borrows the stream.
class RequestRows : public RunListener {
 public:
  // Writes the line of column names.
  explicit RequestRows(std::ostream& out);

  void OnEnded(const RequestLife& life) override { Write(life); }

  // Also for requests that a run leaves unfinished.
  void Write(const RequestLife& life);

 private:
  std::ostream& out_;
  CsvLine line_;
};

}  // namespace twin
