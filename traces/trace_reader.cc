#include "traces/trace_reader.h"

#include <fmt/format.h>

#include <string_view>

namespace twin {

std::string SkippedText(const TraceReadCounts& counts) {
  std::string causes;
  const auto add = [&](std::int64_t rows, std::string_view cause) {
    if (rows > 0) causes += fmt::format("{}{} {}", causes.empty() ? "" : ", ", rows, cause);
  };
  add(counts.skipped_failures - counts.without_output, "failed");
  add(counts.without_output, "without output");
  add(counts.filtered, "removed by a filter");
  if (causes.empty()) return "";
  return fmt::format("{} of {} rows skipped: {}", counts.rows() - counts.requests, counts.rows(),
                     causes);
}

std::string NoteOf(const TraceReadCounts& counts) {
  std::string note = SkippedText(counts);
  if (counts.unwaited == 0) return note;
  if (!note.empty()) note += "; ";
  return note + fmt::format(
                    "{} of {} requests follow the answer of another one, and arrive as if that "
                    "took no time",
                    counts.unwaited, counts.requests);
}

}  // namespace twin
