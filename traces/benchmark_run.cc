#include "traces/benchmark_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/files/line_reader.h"
#include "core/input_error.h"
#include "traces/benchmark_readers.h"
#include "traces/json_fields.h"
#include "traces/metric_snapshots.h"

namespace twin {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kKnownFiles =
    "a result of `vllm bench serve`, SGLang's bench_serving, AIPerf, inference-perf or guidellm, "
    "or "
    "a log of requests";

// AIPerf writes its settings beside its records.
Json SummaryBeside(const std::string& path) {
  const fs::path file = fs::path(path).parent_path() / "profile_export_aiperf.json";
  if (!fs::exists(file)) return {};
  LineReader lines(file.string());
  std::vector<Json> documents = ParseJsonDocuments(lines, "JSON, whole");
  return documents.empty() ? Json() : std::move(documents.front());
}

// Whether the objects are results of whole runs, not single requests.
bool AreResults(const Json& first) {
  return std::ranges::any_of(
      std::to_array({"input_lens", "total_input_tokens", "completed", "request_throughput"}),
      [&](const char* key) { return first.contains(key); });
}

std::vector<BenchmarkRun> ReadJsonRuns(const std::string& path) {
  LineReader lines(path);
  const std::vector<Json> documents = ParseJsonDocuments(lines, kKnownFiles);
  const Json& first = documents.front();
  if (first.is_array()) {
    if (first.empty() || !first.front().is_object()) {
      lines.Refuse(fmt::format("document: no list of requests; allowed: {}", kKnownFiles));
    }
    if (first.front().contains("start_time") && first.front().contains("info")) {
      return {ReadInferencePerfReport(first, lines)};
    }
    return {ReadRequestObjects(first, lines)};
  }
  if (!first.is_object())
    lines.Refuse(fmt::format("document: no object; allowed: {}", kKnownFiles));
  if (first.contains("benchmarks")) return ReadGuidellm(first, lines);
  if (first.contains("metadata") && first.contains("metrics")) {
    return {ReadAiPerfRecords(documents, SummaryBeside(path), lines)};
  }
  if (!AreResults(first)) return {ReadRequestObjects(documents, lines)};
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
  if (run.requests.empty() && !run.totals.empty()) return;
  if (std::ranges::any_of(run.requests, &BenchmarkRequest::completed)) return;
  throw InputError(
      InputError::Kind::kData, path,
      fmt::format("none of {} requests completed; allowed: at least one", run.requests.size()));
}

}  // namespace

std::int64_t BenchmarkRun::failed() const {
  if (requests.empty()) {
    const auto found = totals.find("failed");
    return found == totals.end() ? 0 : static_cast<std::int64_t>(found->second);
  }
  return std::ranges::count(requests, false, &BenchmarkRequest::completed);
}

std::vector<BenchmarkRun> ReadBenchmarkRuns(const std::string& path) {
  LineReader lines(path);
  std::string_view line;
  if (!lines.Next(line)) lines.Refuse(fmt::format("is empty; allowed: {}", kKnownFiles));
  if (IsMetricSnapshot(line)) {
    lines.Refuse(
        "is a snapshot of /metrics; allowed: two, before and after the run, with `validate "
        "--measured BEFORE AFTER`");
  }
  const std::size_t begin = line.find_first_not_of(" \t");
  const bool json = begin != std::string_view::npos && (line[begin] == '{' || line[begin] == '[');
  std::vector<BenchmarkRun> runs;
  if (json) {
    runs = ReadJsonRuns(path);
  } else {
    runs.push_back(ReadRequestTable(path));
  }
  const std::string name = fs::path(path).filename().string();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i].name = runs.size() == 1 ? name : fmt::format("{} #{}", name, i + 1);
    RequireAnswers(path, runs[i]);
    OrderBySending(runs[i]);
    KeepConversations(runs[i]);
  }
  return runs;
}

}  // namespace twin
