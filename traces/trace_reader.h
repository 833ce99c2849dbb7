// What all readers of trace files have in common.
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

// Keeps the rows whose text column has this value; numbers compare by value (0.5 is 0.50).
struct ColumnFilter {
  std::string column;
  std::string value;

  bool operator==(const ColumnFilter&) const = default;
};

struct TraceReadOptions {
  std::vector<ColumnFilter> filters;  // all must hold
  FailedRows failed_rows = FailedRows::kSkip;

  bool operator==(const TraceReadOptions&) const = default;
};

struct TraceReadCounts {
  std::int64_t requests = 0;
  std::int64_t skipped_failures = 0;  // rows without output
  std::int64_t filtered = 0;          // rows that a filter removed
};

// Reads one file. Memory does not grow with it. Throws InputError naming file, line and field.
class TraceReader : public RequestStream {
 public:
  // False: the file has lengths alone, and every arrival is zero.
  [[nodiscard]] virtual bool has_arrivals() const = 0;
  [[nodiscard]] virtual const TraceReadCounts& counts() const = 0;
  [[nodiscard]] virtual const LineReader& lines() const = 0;
};

}  // namespace twin
