#include "traces/trace_format.h"

#include <algorithm>
#include <utility>

#include "core/input_error.h"
#include "core/printable.h"
#include "traces/benchmark_readers.h"
#include "traces/metric_snapshots.h"

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

// Whether the header is that of a log of requests with a latency.
bool IsMeasuredTable(std::string_view header) {
  const auto has = [&](std::string_view name) { return header.find(name) != header.npos; };
  return header.find_first_of("{[") == header.npos && std::ranges::any_of(kPromptNames, has) &&
         std::ranges::any_of(kOutputNames, has) && (has("ttft_") || has("e2e_") || has("e2el_"));
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
  if (IsMetricSnapshot(first_line)) {
    lines.Refuse("is a snapshot of /metrics, which lists no requests; allowed: " + FormatNames() +
                 "; `validate --measured BEFORE AFTER` reads two snapshots");
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
  if (IsMeasuredTable(first_line)) {
    lines.Refuse(
        "header: is that of a log with the times that clients measured, which `compare` "
        "and `validate --measured` read; allowed here: in_tokens, out_tokens and a time of "
        "sending such as send_us, or the load.csv that `validate --measured` writes");
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
