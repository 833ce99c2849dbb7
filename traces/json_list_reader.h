// Reads exports that are one JSON document, or JSON lines with nested members.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "traces/json_fields.h"
#include "traces/trace_reader.h"

namespace twin {

// What an export's document says. `requests` holds those that succeeded, with max_output_tokens
// set.
struct JsonList {
  std::vector<TracedRequest> requests;
  bool has_arrivals = true;
  std::int64_t failures = 0;
  std::int64_t without_output = 0;  // those of them that only lack an output

  // A failed request, or one without output.
  void Skip(bool failed) {
    ++failures;
    if (!failed) ++without_output;
  }
};

// Reads all of `lines` as one document, or as an array of one document a line if `one_per_line`,
// and orders the requests that `read` finds by arrival. Throws InputError if the text is no JSON or
// holds no request. Options: failed_rows kRefuse refuses failed requests; filters are refused.
std::unique_ptr<TraceReader> OpenJsonList(
    std::unique_ptr<LineReader> lines, const TraceReadOptions& options, bool one_per_line,
    const std::function<JsonList(const nlohmann::json&, const LineReader&)>& read);

}  // namespace twin
