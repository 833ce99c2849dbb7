#include "traces/benchmark_reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "traces/json_fields.h"
#include "traces/report_paths.h"

namespace twin {
namespace {

using Json = nlohmann::json;

// The requests of a report. `requests` holds the successful ones, with max_output_tokens set.
struct JsonList {
  std::vector<TracedRequest> requests;
  bool has_arrivals = true;
  std::int64_t failures = 0;
  std::int64_t without_output = 0;  // failures that only lack an output

  // Counts a failed request, or one without output.
  void Skip(bool failed) {
    ++failures;
    if (!failed) ++without_output;
  }
};

class JsonListReader final : public TraceReader {
 public:
  JsonListReader(std::unique_ptr<LineReader> lines, JsonList list)
      : lines_(std::move(lines)), list_(std::move(list)) {
    counts_.skipped_failures = list_.failures;
    counts_.without_output = list_.without_output;
  }

  bool Next(TracedRequest& request) override {
    if (next_ == list_.requests.size()) return false;
    request = list_.requests[next_++];
    ++counts_.requests;
    return true;
  }
  [[nodiscard]] bool has_arrivals() const override { return list_.has_arrivals; }
  [[nodiscard]] const TraceReadCounts& counts() const override { return counts_; }
  [[nodiscard]] const LineReader& lines() const override { return *lines_; }
  [[nodiscard]] bool may_be_cut() const override { return false; }  // documents are whole

 private:
  std::unique_ptr<LineReader> lines_;
  JsonList list_;
  TraceReadCounts counts_;
  std::size_t next_ = 0;
};

Json ReadDocument(LineReader& lines, bool one_per_line) {
  constexpr std::string_view kAllowed = "JSON, whole";
  std::string_view line;
  if (one_per_line) {
    Json list = Json::array();
    while (lines.Next(line)) list.push_back(ParseJson(line, lines, kAllowed));
    return list;
  }
  std::string text;
  while (lines.Next(line)) text.append(line).push_back('\n');
  return ParseJson(text, lines, kAllowed);
}

// Reads all of `lines` as one document, or as an array of one document a line if `one_per_line`,
// and orders the requests that `read` finds by arrival. Throws InputError if the text is no JSON or
// holds no request. Options: failed_rows kRefuse refuses failed requests; filters are refused.
std::unique_ptr<TraceReader> OpenJsonList(
    std::unique_ptr<LineReader> lines, const TraceReadOptions& options, bool one_per_line,
    const std::function<JsonList(const Json&, const LineReader&)>& read) {
  if (!options.filters.empty()) {
    lines->RefuseField("filter", options.filters.front().column, "no filter in this format");
  }
  JsonList list = read(ReadDocument(*lines, one_per_line), *lines);
  if (list.failures > 0 && options.failed_rows == FailedRows::kRefuse) {
    lines->Refuse(fmt::format("{} requests failed; allowed: none", list.failures));
  }
  if (list.requests.empty()) {
    const std::string found = list.failures > 0
                                  ? fmt::format("all {} requests failed", list.failures)
                                  : "no request in the file";
    lines->Refuse(found + "; allowed: at least one that succeeded");
  }
  return SortByArrival(std::make_unique<JsonListReader>(std::move(lines), std::move(list)));
}

// Readers of `vllm bench serve`.

JsonList ReadVllmBench(const Json& document, const LineReader& lines) {
  const auto inputs = document.is_object() ? document.find("input_lens") : document.end();
  if (inputs == document.end() || !inputs->is_array()) {
    lines.Refuse("input_lens: missing; allowed: a file of `vllm bench serve --save-detailed`");
  }
  JsonList list;
  list.has_arrivals = document.contains("start_times");
  for (std::size_t i = 0; i < inputs->size(); ++i) {
    const Json row =
        ElementsAt(document, {"input_lens", "output_lens", "start_times", "errors"}, i);
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

// True for the first line of an indented document. No other format is one object of several lines.
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

// Readers of inference-perf.

// Throws InputError if this array of objects, which begins like any other, is no report.
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

JsonList ReadInferencePerf(const Json& document, const LineReader& lines) {
  CheckArray(document, lines);
  JsonList list;
  for (const Json& entry : document) {
    const JsonRequestFields fields(entry, lines);
    const bool failed = fields.NamesError("error");
    const std::string_view output = FirstPresent(fields, kInferencePerfOutputs);
    if (failed || fields.IsZero(output)) {
      list.Skip(failed);
      continue;
    }
    TracedRequest request;
    request.arrival = fields.Time("start_time", 1);
    request.prompt_tokens = fields.Tokens(FirstPresent(fields, kInferencePerfInputs));
    request.output_tokens = request.max_output_tokens = fields.Tokens(output);
    list.requests.push_back(std::move(request));
  }
  return list;
}

// True for a report with or without line breaks.
bool BeginsArray(std::string_view line) { return line.starts_with("["); }

// Readers of AIPerf.

bool Equals(const Json* value, const Json& wanted) { return value != nullptr && *value == wanted; }

JsonList ReadAiPerf(const Json& document, const LineReader& lines) {
  JsonList list;
  for (const Json& entry : document) {
    const JsonRequestFields fields(entry, lines);
    if (Equals(fields.Find("metadata.benchmark_phase"), "warmup")) continue;
    const bool failed =
        fields.NamesError("error") || Equals(fields.Find("metadata.was_cancelled"), true);
    if (failed || fields.IsZero(kAiPerfOutput)) {
      list.Skip(failed);
      continue;
    }
    TracedRequest request;
    request.arrival = fields.Time(kAiPerfStart, 1e-9);
    request.prompt_tokens = fields.Tokens(kAiPerfInput);
    request.output_tokens = request.max_output_tokens = fields.Tokens(kAiPerfOutput);
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

TraceFormat VllmBenchFormat() {
  return {"vllm_bench", "JSON of `vllm bench serve --save-detailed`",
          [](std::string_view line) {
            return BeginsObject(line) || (line.starts_with("{") && KnownBenchKeys(line) >= 2);
          },
          KnownBenchKeys,
          [](std::unique_ptr<LineReader> lines, const TraceReadOptions& options) {
            return OpenJsonList(std::move(lines), options, /*one_per_line=*/false, ReadVllmBench);
          }};
}

TraceFormat InferencePerfFormat() {
  return {"inference_perf", "JSON array of inference-perf's per-request report", BeginsArray,
          [](std::string_view line) { return std::size_t{BeginsArray(line) ? 3U : 0U}; },
          [](std::unique_ptr<LineReader> lines, const TraceReadOptions& options) {
            return OpenJsonList(std::move(lines), options, /*one_per_line=*/false,
                                ReadInferencePerf);
          }};
}

TraceFormat AiPerfFormat() {
  return {"aiperf", "JSON lines of AIPerf's profile_export.jsonl",
          [](std::string_view line) { return line.starts_with("{") && KnownAiPerfKeys(line) >= 3; },
          KnownAiPerfKeys,
          [](std::unique_ptr<LineReader> lines, const TraceReadOptions& options) {
            return OpenJsonList(std::move(lines), options, /*one_per_line=*/true, ReadAiPerf);
          }};
}

}  // namespace twin
