#include "traces/aiperf_format.h"

#include <cstddef>
#include <utility>

#include <nlohmann/json.hpp>

#include "traces/json_list_reader.h"

namespace twin {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kStart = "metadata.request_start_ns";
constexpr std::string_view kInput = "metrics.input_sequence_length.value";
constexpr std::string_view kOutput = "metrics.output_sequence_length.value";

bool Is(const Json* value, const Json& wanted) { return value != nullptr && *value == wanted; }

JsonList ReadRecords(const Json& document, const LineReader& lines) {
  JsonList list;
  for (const Json& entry : document) {
    const JsonRequestFields fields(entry, lines);
    if (Is(fields.Find("metadata.benchmark_phase"), "warmup")) continue;
    const bool failed =
        fields.NamesError("error") || Is(fields.Find("metadata.was_cancelled"), true);
    if (failed || fields.IsZero(kOutput)) {
      list.Skip(failed);
      continue;
    }
    TracedRequest request;
    request.arrival = fields.Time(kStart, 1e-9);
    request.prompt_tokens = fields.Tokens(kInput);
    request.output_tokens = request.max_output_tokens = fields.Tokens(kOutput);
    list.requests.push_back(std::move(request));
  }
  return list;
}

std::size_t KnownAiPerfKeys(std::string_view line) {
  std::size_t known = 0;
  for (const std::string_view key :
       {"\"metadata\"", "\"metrics\"", "\"request_start_ns\"", "\"input_sequence_length\""}) {
    if (line.find(key) != std::string_view::npos) ++known;
  }
  return known;
}

}  // namespace

const TraceFormat& AiPerfFormat() {
  static const TraceFormat format{
      "aiperf", "JSON lines of AIPerf's profile_export.jsonl",
      [](std::string_view line) { return line.starts_with("{") && KnownAiPerfKeys(line) >= 3; },
      KnownAiPerfKeys,
      [](std::unique_ptr<LineReader> lines, const TraceReadOptions& options) {
        return OpenJsonList(std::move(lines), options, /*one_per_line=*/true, ReadRecords);
      }};
  return format;
}

}  // namespace twin
