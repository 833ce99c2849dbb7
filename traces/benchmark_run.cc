#include "traces/benchmark_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/files/line_reader.h"
#include "core/input_error.h"
#include "traces/benchmark_readers.h"
#include "traces/json_fields.h"
#include "traces/measured_rules.h"
#include "traces/metric_snapshots.h"
#include "traces/trace_format.h"
#include "traces/trace_limits.h"

namespace twin {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kKnownFiles =
    "a result of `vllm bench serve`, SGLang's bench_serving, AIPerf, inference-perf or guidellm, "
    "or a log of requests";

constexpr const char* kAiPerfRecords = "profile_export.jsonl";
constexpr const char* kAiPerfSummary = "profile_export_aiperf.json";

// The file of a run: `path` itself, or the records in a folder of AIPerf's artifacts, or its totals
// where there are no records.
std::string FileOf(const std::string& path) {
  std::error_code unknown;
  if (!fs::is_directory(path, unknown)) return path;
  for (const char* const name : {kAiPerfRecords, kAiPerfSummary}) {
    const fs::path file = fs::path(path) / name;
    if (fs::exists(file, unknown)) return file.string();
  }
  throw InputError(InputError::Kind::kData, path,
                   fmt::format("is a folder without {} and {}; allowed: a folder of AIPerf's "
                               "artifacts, or a file: {}",
                               kAiPerfRecords, kAiPerfSummary, kKnownFiles));
}

// AIPerf writes its settings beside its records.
Json SummaryBeside(const std::string& path) {
  const fs::path file = fs::path(path).parent_path() / kAiPerfSummary;
  if (!fs::exists(file)) return {};
  LineReader lines(file.string());
  std::vector<Json> documents = ParseJsonDocuments(lines, "JSON, whole");
  return documents.empty() ? Json() : std::move(documents.front());
}

bool HasAny(const Json& object, std::initializer_list<const char*> keys) {
  return std::ranges::any_of(keys, [&](const char* key) { return object.contains(key); });
}

// Whether the object has statistics, each with its unit.
bool IsAiPerfSummary(const Json& object) {
  for (const char* key : {"request_latency", "time_to_first_token", "request_throughput"}) {
    const auto found = object.find(key);
    if (found != object.end() && found->is_object() && found->contains("avg")) return true;
  }
  return false;
}

std::vector<BenchmarkRun> ReadArray(const Json& array, const LineReader& lines) {
  if (array.empty() || !array.front().is_object()) {
    lines.Refuse(fmt::format("document: no list of requests; allowed: {}", kKnownFiles));
  }
  const Json& first = array.front();
  if (HasAny(first, {"conversations", "conversation"})) {
    lines.Refuse(
        "document: holds the texts of ShareGPT's conversations; allowed: counts of tokens, such as "
        "a CSV with prompt_tokens,output_tokens");
  }
  if (HasAny(first, {"info"})) return {ReadInferencePerfReport(array, lines)};
  return {ReadRequestObjects(array, lines)};
}

std::vector<BenchmarkRun> ReadDocuments(LineReader& lines) {
  const std::vector<Json> documents = ParseJsonDocuments(lines, kKnownFiles);
  const Json& first = documents.front();
  if (first.is_array()) return ReadArray(first, lines);
  if (!first.is_object()) {
    lines.Refuse(fmt::format("document: no object; allowed: {}", kKnownFiles));
  }
  if (first.contains("benchmarks")) return ReadGuidellm(first, lines);
  if (first.contains("metadata") && first.contains("metrics")) {
    return {ReadAiPerfRecords(documents, SummaryBeside(lines.name()), lines)};
  }
  if (IsAiPerfSummary(first)) return {ReadAiPerfSummary(first, lines)};
  if (!HasAny(first, {"input_lens", "total_input_tokens", "completed", "request_throughput"})) {
    return {ReadRequestObjects(documents, lines)};
  }
  std::vector<BenchmarkRun> runs;
  for (const Json& document : documents) runs.push_back(ReadBenchResult(document, lines));
  return runs;
}

// Requests in order of sending, the first at time zero.
void OrderBySending(BenchmarkRun& run) {
  if (!run.has_times || run.requests.empty()) return;
  std::ranges::stable_sort(run.requests, {}, &BenchmarkRequest::sent);
  const Duration begin = run.requests.front().sent.time_since_epoch();
  for (BenchmarkRequest& request : run.requests) request.sent -= begin;
}

// A conversation of a single request is none.
void KeepConversations(BenchmarkRun& run) {
  std::map<std::uint64_t, int> turns;
  for (const BenchmarkRequest& request : run.requests) ++turns[request.session];
  for (BenchmarkRequest& request : run.requests) {
    if (turns[request.session] == 1) request.session = 0;
  }
}

void RequireAnswers(const std::string& path, const BenchmarkRun& run) {
  if (!run.requests.empty()) {
    if (std::ranges::any_of(run.requests, &BenchmarkRequest::completed)) return;
    throw InputError(
        InputError::Kind::kData, path,
        fmt::format("none of {} requests completed; allowed: at least one", run.requests.size()));
  }
  for (const char* key : {"completed", "total_input_tokens", "total_output_tokens"}) {
    const auto found = run.totals.find(key);
    if (found != run.totals.end() && found->second >= 1) continue;
    throw InputError(InputError::Kind::kData, path,
                     fmt::format("{}: missing, or none; allowed: {}, with its requests or with "
                                 "totals of those that completed",
                                 key, kKnownFiles));
  }
}

// Applies what holds for the runs of every kind of file.
void Finish(const std::string& path, std::vector<BenchmarkRun>& runs) {
  const std::string name = fs::path(path).filename().string();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i].name = runs.size() == 1 ? name : fmt::format("{} #{}", name, i + 1);
    RequireAnswers(path, runs[i]);
    ApplyMeasuredRules(path, runs[i]);
    OrderBySending(runs[i]);
    KeepConversations(runs[i]);
  }
}

// The format of a trace that no client measured, by its first line; nullptr: it has none.
const TraceFormat* FindTraceFormat(std::string_view line) {
  const auto found = std::ranges::find_if(
      TraceFormats(), [&](const TraceFormat& format) { return format.recognises(line); });
  return found == TraceFormats().end() || found->measured ? nullptr : &*found;
}

[[noreturn]] void RefuseTrace(const LineReader& lines, const TraceFormat& format) {
  lines.Refuse(fmt::format(
      "is a trace in the format {}, without times that a client measured; allowed: {}; `run "
      "--trace` and `trace info` read this file",
      format.name, kKnownFiles));
}

}  // namespace

std::int64_t BenchmarkRun::failed() const {
  if (requests.empty()) {
    const auto found = totals.find("failed");
    return found == totals.end() ? 0 : static_cast<std::int64_t>(found->second);
  }
  return std::ranges::count(requests, false, &BenchmarkRequest::completed);
}

void BenchmarkRequest::SetPace(const std::optional<Duration>& pace) {
  if (!pace || output_tokens < 2 || *pace > kArrivalMax / output_tokens) return;
  const Duration decode = *pace * (output_tokens - 1);
  if (ttft) {
    (e2e ? stated_e2e : e2e) = *ttft + decode;
  } else if (e2e) {
    ttft = *e2e - decode;
  }
}

std::optional<double> TpotMs(const BenchmarkRequest& request) {
  if (!request.ttft || !request.e2e || request.output_tokens < 2) return std::nullopt;
  constexpr Duration kRounding = std::chrono::microseconds(1);
  const Duration decode = *request.e2e - *request.ttft;
  if (request.one_piece || decode <= kRounding) return std::nullopt;
  return Milliseconds(decode) / (request.output_tokens - 1);
}

std::vector<BenchmarkRun> ReadJsonRuns(LineReader& lines) {
  std::vector<BenchmarkRun> runs = ReadDocuments(lines);
  Finish(lines.name(), runs);
  return runs;
}

std::vector<BenchmarkRun> ReadBenchmarkRuns(const std::string& asked) {
  const std::string path = FileOf(asked);
  LineReader lines(path);
  std::string_view line;
  if (!lines.Next(line)) lines.Refuse(fmt::format("is empty; allowed: {}", kKnownFiles));
  if (IsMetricSnapshot(line)) {
    lines.Refuse(
        "is a snapshot of /metrics; allowed: two, before and after the run, with `validate "
        "--measured BEFORE AFTER`");
  }
  const TraceFormat* const trace = FindTraceFormat(line);
  const bool like_log = std::ranges::any_of(
      kPromptNames, [&](std::string_view name) { return line.find(name) != line.npos; });
  if (trace != nullptr && !like_log) RefuseTrace(lines, *trace);
  const std::size_t begin = line.find_first_not_of(" \t");
  const bool json = begin != std::string_view::npos && (line[begin] == '{' || line[begin] == '[');
  lines.Unread();
  std::vector<BenchmarkRun> runs;
  if (json) {
    runs = ReadJsonRuns(lines);
  } else {
    runs.push_back(ReadRequestTable(path));
    Finish(path, runs);
  }
  const auto measured = [](const BenchmarkRequest& request) { return request.ttft || request.e2e; };
  const bool any = std::ranges::any_of(runs, [&](const BenchmarkRun& run) {
    return run.requests.empty() || std::ranges::any_of(run.requests, measured);
  });
  if (trace != nullptr && !any) RefuseTrace(lines, *trace);
  return runs;
}

}  // namespace twin
