// The interface and the options of all readers of trace files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/line_reader.h"
#include "traces/request_stream.h"

namespace twin {

// Treatment of a row without output (BurstGPT: 0 response tokens), which is a failed request.
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
  std::int64_t skipped_failures = 0;  // rows of failed requests
  std::int64_t without_output = 0;    // skipped failures that only lack an output
  std::int64_t filtered = 0;          // rows that a filter removed
  // Requests that the tool sends after the answer of another request. No trace waits for answers:
  // these requests arrive as if answers took no time.
  std::int64_t unwaited = 0;

  [[nodiscard]] std::int64_t rows() const { return requests + skipped_failures + filtered; }
};

// "3 of 5 rows skipped: 1 failed, 2 without output"; empty if none was.
std::string SkippedText(const TraceReadCounts& counts);

// Note for readers of the trace's numbers: skipped rows, requests that do not wait, and the
// reader's own note; empty if there are none of these.
std::string NoteText(const TraceReadCounts& counts, const std::string& note);

// Names of columns and keys that a reader finds and does not use, as a note: "not used: a, b".
class UnusedNames {
 public:
  void Add(std::string_view name);
  // Empty if there are none. Names the first few of many.
  [[nodiscard]] const std::string& note() const { return note_; }

 private:
  std::set<std::string, std::less<>> names_;
  std::string named_;
  std::string note_;
};

// Reads one file as a stream; memory does not grow with the file. Errors are InputErrors that name
// file, line and field.
class TraceReader : public RequestStream {
 public:
  // False if the file has lengths only; every arrival is then zero.
  [[nodiscard]] virtual bool has_arrivals() const = 0;
  [[nodiscard]] virtual const TraceReadCounts& counts() const = 0;
  [[nodiscard]] virtual const LineReader& lines() const = 0;
  // Names columns and keys of the rows so far that are not used; empty if there are none.
  [[nodiscard]] virtual const std::string& note() const = 0;
  // True if the file may have been cut within its last number. REQUIRES: Next() was false.
  [[nodiscard]] virtual bool may_be_cut() const { return lines().ended_without_newline(); }
};

// Reads a whole trace whose rows come in any order, such as a client's log, which is written as
// requests end. Returns the requests in order of arrival (equal arrivals keep the file's order),
// the earliest at time zero if `from_zero`. Without arrivals the requests keep the reader's order.
// Memory grows with the file. Throws InputError as the reader does.
std::unique_ptr<TraceReader> SortByArrival(std::unique_ptr<TraceReader> reader,
                                           bool from_zero = true);

}  // namespace twin
