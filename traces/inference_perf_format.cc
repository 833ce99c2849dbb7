#include "traces/inference_perf_format.h"

#include <cstddef>
#include <utility>

#include <nlohmann/json.hpp>

#include "traces/json_list_reader.h"

namespace twin {
namespace {

using Json = nlohmann::json;

JsonList ReadReport(const Json& document, const LineReader& lines) {
  if (!document.is_array()) lines.Refuse("document: is no array; allowed: a list of requests");
  JsonList list;
  for (const Json& entry : document) {
    const JsonRequestFields fields(entry, lines);
    const Json* error = fields.Find("error");
    if (error != nullptr && !error->is_null()) {
      ++list.failures;
      continue;
    }
    TracedRequest request;
    request.arrival = fields.Time("start_time", 1);
    request.prompt_tokens = fields.Tokens("info.input_tokens");
    request.output_tokens = request.max_output_tokens = fields.Tokens("info.output_tokens");
    list.requests.push_back(std::move(request));
  }
  return list;
}

// The array is written with or without line breaks.
bool BeginsArray(std::string_view line) { return line.starts_with("["); }

}  // namespace

const TraceFormat& InferencePerfFormat() {
  static const TraceFormat format{
      "inference_perf", "JSON array of inference-perf's per-request report", BeginsArray,
      [](std::string_view line) { return std::size_t{BeginsArray(line) ? 3U : 0U}; },
      [](std::unique_ptr<LineReader> lines, const TraceReadOptions& options) {
        return OpenJsonList(std::move(lines), options, /*one_per_line=*/false, ReadReport);
      }};
  return format;
}

}  // namespace twin
