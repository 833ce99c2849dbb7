#include "traces/trace_format.h"

#include <utility>

#include "core/input_error.h"
#include "core/printable.h"

namespace twin {
namespace {

std::string FormatNames() {
  std::string names;
  for (const TraceFormat& format : TraceFormats()) {
    names += (names.empty() ? "" : ", ") + format.name;
  }
  return names;
}

const TraceFormat& FindFormat(std::string_view name) {
  for (const TraceFormat& format : TraceFormats()) {
    if (format.name == name) return format;
  }
  throw InputError(InputError::Kind::kUsage, "trace format",
                   "found '" + Printable(name) + "'; allowed: " + FormatNames());
}

const TraceFormat& RecogniseFormat(LineReader& lines) {
  std::string_view first_line;
  if (!lines.Next(first_line)) {
    throw InputError(
        InputError::Kind::kData, lines.name() + ":1",
        "header: the file is empty; allowed: a trace of a known format (" + FormatNames() + ")");
  }
  lines.Unread();
  if (first_line.starts_with("client,window_start_s,")) {
    lines.RefuseField("header", first_line,
                      "a list of requests; ServeGen's client windows are a generator's input, see "
                      "workload.servegen");
  }
  const TraceFormat* nearest = nullptr;
  std::size_t resemblance = 1;
  for (const TraceFormat& format : TraceFormats()) {
    if (format.recognises(first_line)) return format;
    if (const std::size_t known = format.resemblance(first_line); known > resemblance) {
      nearest = &format;
      resemblance = known;
    }
  }
  if (nearest != nullptr) return *nearest;
  lines.RefuseField("header", first_line, "the first line of a known format: " + FormatNames());
}

}  // namespace

std::unique_ptr<TraceReader> OpenTrace(const std::string& path, std::string_view format_name,
                                       const TraceReadOptions& options) {
  return OpenTrace(std::make_unique<LineReader>(path), format_name, options);
}

std::unique_ptr<TraceReader> OpenTrace(std::unique_ptr<LineReader> lines,
                                       std::string_view format_name,
                                       const TraceReadOptions& options) {
  const TraceFormat& format =
      format_name.empty() ? RecogniseFormat(*lines) : FindFormat(format_name);
  return format.open(std::move(lines), options);
}

}  // namespace twin
