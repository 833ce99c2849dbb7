// The interface and the options of all readers of trace files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "traces/line_reader.h"
#include "traces/request_stream.h"

namespace twin {

// What to do with a row that records no output (BurstGPT: 0 response tokens), a failed request.
enum class FailedRows : std::uint8_t { kSkip, kRefuse, kOneToken };

// Keeps only rows in which the text column has this value. Numbers are compared by value (0.5
// equals 0.50).
struct ColumnFilter {
  std::string column;
  std::string value;

  bool operator==(const ColumnFilter&) const = default;
};

struct TraceReadOptions {
  std::vector<ColumnFilter> filters;  // a row must match all of them
  FailedRows failed_rows = FailedRows::kSkip;

  bool operator==(const TraceReadOptions&) const = default;
};

struct TraceReadCounts {
  std::int64_t requests = 0;
  std::int64_t skipped_failures = 0;  // rows without output
  std::int64_t filtered = 0;          // rows that a filter removed
};

// Reads one file as a stream; memory does not grow with the file. Errors are InputErrors that name
// file, line and field.
class TraceReader : public RequestStream {
 public:
  // False if the file has lengths only; every arrival is then zero.
  [[nodiscard]] virtual bool has_arrivals() const = 0;
  [[nodiscard]] virtual const TraceReadCounts& counts() const = 0;
  [[nodiscard]] virtual const LineReader& lines() const = 0;
};

}  // namespace twin
