#include "run/measured_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/csv.h"
#include "core/files/output_file.h"
#include "core/number_text.h"
#include "core/time.h"
#include "run/client_metrics.h"
#include "run/record/metric_catalog.h"
#include "run/run_directory.h"

namespace twin::run {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Completed requests and requests in all; the latter are unknown for a file of totals that does not
// count failures.
struct RequestCounts {
  std::int64_t completed = 0;
  std::int64_t all = 0;
};

RequestCounts CountsOf(const BenchmarkRun& run) {
  if (!run.requests.empty()) {
    const auto all = static_cast<std::int64_t>(run.requests.size());
    return {.completed = all - run.failed(), .all = all};
  }
  const std::int64_t completed = std::llround(run.totals.at("completed"));
  return {.completed = completed, .all = completed + run.failed()};
}

// Rates over the time from the first sending to the last token.
void SetRates(const BenchmarkRun& run, Summary& summary) {
  const MetricValues throughput = run.has_times ? ThroughputOf(run.requests) : MetricValues{};
  const auto rate = throughput.find(kThroughput);
  if (rate == throughput.end()) return;
  const double seconds = summary.Number("completed") / rate->second;
  const double output = summary.Number("total_output_tokens");
  summary.Set("duration_seconds", seconds);
  summary.Set(kThroughput, rate->second);
  summary.Set("output_throughput", output / seconds);
  summary.Set("total_token_throughput", (summary.Number("total_input_tokens") + output) / seconds);
}

void SetTokens(const BenchmarkRun& run, Summary& summary) {
  std::int64_t input = 0;
  std::int64_t output = 0;
  for (const BenchmarkRequest& request : run.requests) {
    if (!request.completed) continue;
    input += request.prompt_tokens;
    output += request.output_tokens;
  }
  summary.Set("total_input_tokens", input);
  summary.Set("total_output_tokens", output);
}

void SetLatencies(const BenchmarkRun& run, Summary& summary) {
  const bool has_itl = CountsTokens(run.requests);
  const MetricValues values = ClientMetrics(run.requests).Values();
  for (const char* latency : kClientLatencies) {
    if (std::string_view(latency) == "itl" && !has_itl) continue;
    for (const char* statistic : kClientStatistics) {
      const std::string key = fmt::format("{}_{}_ms", statistic, latency);
      if (const auto found = values.find(key); found != values.end()) {
        summary.Set(key, found->second);
      }
    }
  }
}

void SetTotals(const BenchmarkRun& run, Summary& summary) {
  for (const char* count : {"total_input_tokens", "total_output_tokens"}) {
    if (const auto found = run.totals.find(count); found != run.totals.end()) {
      summary.Set(count, static_cast<std::int64_t>(std::llround(found->second)));
    }
  }
  for (const auto& [key, value] : run.totals) {
    if (summary.Find(key) == nullptr && FindMetric(key) != nullptr) summary.Set(key, value);
  }
}

// The requests that completed, as the lists of `vllm bench serve --save-detailed`.
Json TokenLists(const BenchmarkRun& run) {
  Json lists{{"input_lens", Json::array()}, {"output_lens", Json::array()}};
  for (const BenchmarkRequest& request : run.requests) {
    if (!request.completed) continue;
    lists["input_lens"].push_back(request.prompt_tokens);
    lists["output_lens"].push_back(request.output_tokens);
    if (run.has_times) lists["start_times"].push_back(Seconds(request.sent));
    lists["ttfts"].push_back(request.ttft ? Json(Seconds(*request.ttft)) : Json());
    Json& gaps = lists["itls"].emplace_back(Json::array());
    for (const Duration gap : request.gaps) gaps.push_back(Seconds(gap));
  }
  return lists;
}

void AddResults(const fs::path& path, std::vector<RunResult>& results) {
  if (!fs::is_regular_file(path)) {
    results.push_back({.name = RunName(path), .path = path, .summary = ReadSummary(path)});
    return;
  }
  for (BenchmarkRun& run : ReadBenchmarkRuns(path.string())) {
    Summary summary = MeasuredSummary(run);
    results.push_back({.name = run.name,
                       .path = path,
                       .summary = std::move(summary),
                       .measured = std::move(run)});
  }
}

// The last `count` folders above a path: "a/b/".
std::string FoldersAbove(const fs::path& path, std::size_t count) {
  fs::path folder = fs::absolute(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // of "a/b/"
  std::string text;
  for (; count > 0; --count) {
    folder = folder.parent_path();
    if (!folder.has_filename()) break;
    text.insert(0, folder.filename().string() + "/");
  }
  return text;
}

// Names the folders of results of one name. The same path given twice stays two of one name.
void TellApart(std::vector<RunResult>& results) {
  std::map<std::string, std::vector<RunResult*>> by_name;
  for (RunResult& result : results) by_name[result.name].push_back(&result);
  for (const auto& [name, same] : by_name) {
    const auto kinds = [&](std::size_t folders) {
      std::set<std::string> names;
      for (const RunResult* result : same) names.insert(FoldersAbove(result->path, folders));
      return names.size();
    };
    constexpr std::size_t kFoldersMax = 64;
    const std::size_t paths = kinds(kFoldersMax);
    std::size_t folders = 0;
    while (kinds(folders) < paths) ++folders;
    for (RunResult* result : same) {
      result->name.insert(0, FoldersAbove(result->path, folders));
    }
  }
}

std::string TimeCell(const std::optional<double>& ms) { return ms ? ShortestText(*ms) : ""; }

}  // namespace

Summary MeasuredSummary(const BenchmarkRun& run) {
  const RequestCounts counts = CountsOf(run);
  Summary summary;
  summary.Set("requests", counts.all);
  summary.Set("completed", counts.completed);
  summary.Set("unanswered_share", Ratio(counts.all - counts.completed, counts.all));
  if (run.requests.empty()) {
    SetTotals(run, summary);
    return summary;
  }
  SetTokens(run, summary);
  SetRates(run, summary);
  // A client that states no times of sending may state its rates.
  for (const char* rate : {kThroughput, "output_throughput"}) {
    const auto found = run.totals.find(rate);
    if (summary.Find(rate) == nullptr && found != run.totals.end()) {
      summary.Set(rate, found->second);
    }
  }
  SetLatencies(run, summary);
  return summary;
}

std::vector<std::string> RequestCells(const BenchmarkRequest& request, bool has_times) {
  const auto ms = [](const std::optional<Duration>& time) {
    return TimeCell(time ? std::optional(Milliseconds(*time)) : std::nullopt);
  };
  const bool known = request.completed;
  return {has_times ? ShortestText(Seconds(request.sent.time_since_epoch())) : "",
          std::to_string(request.prompt_tokens),
          std::to_string(request.output_tokens),
          known ? ms(request.ttft) : "",
          known ? TimeCell(TpotMs(request)) : "",
          known ? ms(request.e2e) : ""};
}

void WriteMeasuredFolder(const BenchmarkRun& run, const fs::path& folder) {
  fs::create_directories(folder);
  const Json about{{"name", run.name}, {"format", run.format}, {"notes", run.notes}};
  WriteFile(folder / "measured.json", about.dump(2) + "\n");
  std::ostringstream summary;
  WriteJson(summary, MeasuredSummary(run));
  WriteFile(folder / "summary.json", summary.str());
  for (const char* other : {"requests.csv", "vllm_bench.json"}) fs::remove(folder / other);
  if (run.requests.empty()) return;
  std::string table;
  CsvLine header;
  for (const char* column : kRequestColumns) header.Word(column);
  header.AppendTo(table);
  for (const BenchmarkRequest& request : run.requests) {
    if (!request.completed) continue;
    CsvLine line;
    for (const std::string& cell : RequestCells(request, run.has_times)) line.Word(cell);
    line.AppendTo(table);
  }
  WriteFile(folder / "requests.csv", table);
  if (CountsTokens(run.requests)) {
    WriteFile(folder / "vllm_bench.json", TokenLists(run).dump() + "\n");
  }
}

std::string MeasuredText(const BenchmarkRun& run) {
  const RequestCounts counts = CountsOf(run);
  std::string text = fmt::format("measured ({}): {} of {} requests completed", run.format,
                                 counts.completed, counts.all);
  for (const std::string& note : run.notes) text += "; " + note;
  return text;
}

std::vector<RunResult> ReadResults(std::span<const fs::path> paths) {
  std::vector<RunResult> results;
  for (const fs::path& path : paths) AddResults(path, results);
  TellApart(results);
  return results;
}

std::vector<std::string> NotesOf(std::span<const RunResult> results) {
  std::vector<std::string> notes;
  for (const RunResult& result : results) {
    if (!result.measured) continue;
    for (const std::string& note : result.measured->notes) {
      notes.push_back(fmt::format("{}: {}", result.name, note));
    }
  }
  return notes;
}

}  // namespace twin::run
