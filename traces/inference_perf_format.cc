#include "traces/inference_perf_format.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "traces/json_list_reader.h"

namespace twin {
namespace {

using Json = nlohmann::json;

// Releases from 2026 on have the counts in request_metrics and response_metrics; the server's count
// of the output goes before the client's.
constexpr std::string_view kInputs[] = {"info.request_metrics.text.input_tokens",
                                        "info.input_tokens"};
constexpr std::string_view kOutputs[] = {"info.response_metrics.server_usage.completion_tokens",
                                         "info.response_metrics.output_tokens",
                                         "info.output_tokens"};

// The first of the paths that the request has; the last one if it has none.
std::string_view FirstOf(const JsonRequestFields& fields, std::span<const std::string_view> paths) {
  const auto found = std::ranges::find_if(
      paths, [&](std::string_view path) { return fields.Find(path) != nullptr; });
  return found == paths.end() ? paths.back() : *found;
}

// Other arrays of objects, too, begin with a bracket alone.
void CheckArray(const Json& document, const LineReader& lines) {
  if (!document.is_array()) lines.Refuse("document: is no array; allowed: a list of requests");
  if (document.empty() || !document.front().is_object()) return;
  const Json& first = document.front();
  if (first.contains("conversations") || first.contains("conversation")) {
    lines.Refuse(
        "document: holds the texts of ShareGPT's conversations; allowed: counts of tokens, such as "
        "a CSV with prompt_tokens,output_tokens");
  }
  if (!first.contains("start_time") && !first.contains("info")) {
    lines.RefuseField("document", first.dump(-1, ' ', true, Json::error_handler_t::replace),
                      "a list of requests with start_time and info, as inference-perf writes it");
  }
}

JsonList ReadReport(const Json& document, const LineReader& lines) {
  CheckArray(document, lines);
  JsonList list;
  for (const Json& entry : document) {
    const JsonRequestFields fields(entry, lines);
    const bool failed = fields.NamesError("error");
    const std::string_view output = FirstOf(fields, kOutputs);
    if (failed || fields.IsZero(output)) {
      list.Skip(failed);
      continue;
    }
    TracedRequest request;
    request.arrival = fields.Time("start_time", 1);
    request.prompt_tokens = fields.Tokens(FirstOf(fields, kInputs));
    request.output_tokens = request.max_output_tokens = fields.Tokens(output);
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
