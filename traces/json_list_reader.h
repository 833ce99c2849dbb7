// Reads exports that are one JSON document, or JSON lines with nested members.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "traces/trace_reader.h"

namespace twin {

// What an export's document says. `requests` holds those that succeeded, with max_output_tokens
// set.
struct JsonList {
  std::vector<TracedRequest> requests;
  bool has_arrivals = true;
  std::int64_t failures = 0;
};

// Reads all of `lines` as one document, or as an array of one document a line if `one_per_line`,
// and orders the requests that `read` finds by arrival. Throws InputError if the text is no JSON or
// holds no request. Options: failed_rows kRefuse refuses failed requests; filters are refused.
std::unique_ptr<TraceReader> OpenJsonList(
    std::unique_ptr<LineReader> lines, const TraceReadOptions& options, bool one_per_line,
    const std::function<JsonList(const nlohmann::json&, const LineReader&)>& read);

// Members of a request. Throws InputError that names the path ("info.input_tokens") and request.
class JsonRequestFields {
 public:
  // Borrows both.
  JsonRequestFields(const nlohmann::json& request, const LineReader& lines)
      : request_(request), lines_(lines) {}

  // Path of names separated by dots; nullptr if a member is missing.
  [[nodiscard]] const nlohmann::json* Find(std::string_view path) const;
  [[nodiscard]] std::int32_t Tokens(std::string_view path) const;
  // A number of `unit_seconds` each, of any clock that starts at or after 1970.
  [[nodiscard]] TimePoint Time(std::string_view path, double unit_seconds) const;

 private:
  const nlohmann::json& request_;
  const LineReader& lines_;
};

}  // namespace twin
