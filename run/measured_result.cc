#include "run/measured_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>
#include <utility>

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
    if (summary.Find(key) == nullptr && FindMetric(key)) summary.Set(key, value);
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
  std::ostringstream summary;
  WriteJson(summary, MeasuredSummary(run));
  WriteFile(folder / "summary.json", summary.str());
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
}

std::string MeasuredText(const BenchmarkRun& run) {
  const RequestCounts counts = CountsOf(run);
  return fmt::format("measured ({}): {} of {} requests completed", run.format, counts.completed,
                     counts.all);
}

std::vector<RunResult> ReadResults(const fs::path& path) {
  std::vector<RunResult> results;
  if (!fs::is_regular_file(path)) {
    results.push_back({.name = RunName(path), .path = path, .summary = ReadSummary(path)});
    return results;
  }
  for (BenchmarkRun& run : ReadBenchmarkRuns(path.string())) {
    Summary summary = MeasuredSummary(run);
    results.push_back({.name = run.name,
                       .path = path,
                       .summary = std::move(summary),
                       .measured = std::move(run)});
  }
  return results;
}

}  // namespace twin::run
