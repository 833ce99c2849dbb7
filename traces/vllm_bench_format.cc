#include "traces/vllm_bench_format.h"

#include <cstddef>
#include <utility>

#include <nlohmann/json.hpp>

#include "traces/json_list_reader.h"

namespace twin {
namespace {

using Json = nlohmann::json;

// The element of a list of the document as the member of an object, so that errors name it.
Json RowOf(const Json& document, std::size_t i) {
  Json row = Json::object();
  for (const char* key : {"input_lens", "output_lens", "start_times", "errors"}) {
    const auto list = document.find(key);
    if (list != document.end() && list->is_array() && i < list->size()) row[key] = (*list)[i];
  }
  return row;
}

JsonList ReadResults(const Json& document, const LineReader& lines) {
  const auto inputs = document.is_object() ? document.find("input_lens") : document.end();
  if (inputs == document.end() || !inputs->is_array()) {
    lines.Refuse("input_lens: missing; allowed: a file of `vllm bench serve --save-detailed`");
  }
  JsonList list;
  list.has_arrivals = document.contains("start_times");
  for (std::size_t i = 0; i < inputs->size(); ++i) {
    const Json row = RowOf(document, i);
    const JsonRequestFields fields(row, lines);
    const bool failed = fields.NamesError("errors");
    if (failed || fields.IsZero("output_lens")) {
      list.Skip(failed);
      continue;
    }
    TracedRequest request;
    request.prompt_tokens = fields.Tokens("input_lens");
    request.output_tokens = request.max_output_tokens = fields.Tokens("output_lens");
    if (list.has_arrivals) request.arrival = fields.Time("start_times", 1);
    list.requests.push_back(std::move(request));
  }
  return list;
}

// The first line of an indented document. No other format is one object of several lines.
bool BeginsObject(std::string_view line) {
  return line.starts_with("{") && line.find_first_not_of(" \t", 1) == std::string_view::npos;
}

std::size_t KnownBenchKeys(std::string_view line) {
  std::size_t known = 0;
  for (const std::string_view key : {"\"input_lens\"", "\"output_lens\"", "\"start_times\""}) {
    if (line.find(key) != std::string_view::npos) ++known;
  }
  return known;
}

}  // namespace

const TraceFormat& VllmBenchFormat() {
  static const TraceFormat format{
      "vllm_bench", "JSON of `vllm bench serve --save-detailed`",
      [](std::string_view line) {
        return BeginsObject(line) || (line.starts_with("{") && KnownBenchKeys(line) >= 2);
      },
      KnownBenchKeys,
      [](std::unique_ptr<LineReader> lines, const TraceReadOptions& options) {
        return OpenJsonList(std::move(lines), options, /*one_per_line=*/false, ReadResults);
      }};
  return format;
}

}  // namespace twin
