#include "traces/benchmark_reports.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "traces/benchmark_readers.h"

namespace twin {
namespace {

// The requests that completed, in order of sending.
class BenchmarkTrace final : public TraceReader {
 public:
  BenchmarkTrace(std::unique_ptr<LineReader> lines, BenchmarkRun run)
      : lines_(std::move(lines)), run_(std::move(run)) {
    counts_.skipped_failures = run_.failed();
    counts_.without_output =
        std::ranges::count(run_.requests, true, &BenchmarkRequest::without_output);
    note_ = fmt::format("{}", fmt::join(run_.notes, "; "));
  }

  bool Next(TracedRequest& request) override {
    while (next_ < run_.requests.size() && !run_.requests[next_].completed) ++next_;
    if (next_ == run_.requests.size()) return false;
    const BenchmarkRequest& measured = run_.requests[next_++];
    request = TracedRequest{};
    request.arrival = measured.sent;
    request.prompt_tokens = measured.prompt_tokens;
    request.output_tokens = request.max_output_tokens = measured.output_tokens;
    request.session = measured.session;
    ++counts_.requests;
    return true;
  }
  [[nodiscard]] bool has_arrivals() const override { return run_.has_times; }
  [[nodiscard]] const TraceReadCounts& counts() const override { return counts_; }
  [[nodiscard]] const LineReader& lines() const override { return *lines_; }
  [[nodiscard]] const std::string& note() const override { return note_; }
  [[nodiscard]] bool may_be_cut() const override { return false; }  // documents are whole

 private:
  std::unique_ptr<LineReader> lines_;
  BenchmarkRun run_;
  TraceReadCounts counts_;
  std::string note_;
  std::size_t next_ = 0;
};

// Options: failed_rows kRefuse refuses failed requests; filters are refused.
std::unique_ptr<TraceReader> Open(std::unique_ptr<LineReader> lines,
                                  const TraceReadOptions& options) {
  if (!options.filters.empty()) {
    lines->RefuseField("filter", options.filters.front().column, "no filter in this format");
  }
  std::vector<BenchmarkRun> runs = ReadJsonRuns(*lines);
  if (runs.size() > 1) {
    lines->Refuse(fmt::format("holds {} runs of {}; allowed: a file with one of them", runs.size(),
                              runs.front().format));
  }
  BenchmarkRun& run = runs.front();
  if (run.requests.empty()) {
    lines->Refuse(
        fmt::format("holds the totals of a run of {} alone; allowed: a result with its "
                    "requests (AIPerf: profile_export.jsonl); `compare` and `validate --measured` "
                    "read totals",
                    run.format));
  }
  if (run.failed() > 0 && options.failed_rows == FailedRows::kRefuse) {
    lines->Refuse(fmt::format("{} requests failed; allowed: none", run.failed()));
  }
  // Time zero is the first request that completed.
  return SortByArrival(std::make_unique<BenchmarkTrace>(std::move(lines), std::move(run)));
}

// The number of keys, in quotes, in the line.
std::size_t KnownKeys(std::string_view line, const std::vector<std::string_view>& keys) {
  return static_cast<std::size_t>(std::ranges::count_if(keys, [&](std::string_view key) {
    return line.find(fmt::format("\"{}\"", key)) != std::string_view::npos;
  }));
}

// A format of objects, whose first line has at least two of the keys.
TraceFormat ObjectFormat(std::string name, std::string description,
                         std::vector<std::string_view> keys, std::size_t least = 2) {
  return {.name = std::move(name),
          .description = std::move(description),
          .recognises =
              [keys, least](std::string_view line) {
                return line.starts_with('{') && KnownKeys(line, keys) >= least;
              },
          .resemblance = [keys](std::string_view line) { return KnownKeys(line, keys); },
          .open = Open,
          .measured = true};
}

// The first line of an indented object tells no more.
bool BeginsObject(std::string_view line) {
  return line.starts_with('{') && line.find_first_not_of(" \t", 1) == std::string_view::npos;
}

}  // namespace

std::vector<TraceFormat> BenchmarkFormats() {
  std::vector<TraceFormat> formats{
      ObjectFormat(
          "vllm_bench", "JSON of `vllm bench serve --save-detailed`, and of SGLang",
          {"input_lens", "output_lens", "start_times", "total_input_tokens", "request_throughput"}),
      ObjectFormat("aiperf", "JSON lines of AIPerf's profile_export.jsonl",
                   {"metadata", "metrics", "request_start_ns", "input_sequence_length"}, 3),
      ObjectFormat("guidellm", "JSON of guidellm's benchmarks.json, with one benchmark",
                   {"benchmarks", "request_start_time", "time_to_first_token_ms"}, 1),
      ObjectFormat("request_log_json",
                   "a log of requests as JSON lines or array: prompt_tokens, output_tokens, send_s",
                   {"prompt_tokens", "in_tokens", "input_tokens", "output_tokens", "out_tokens"}),
      ObjectFormat("inference_perf", "JSON array of inference-perf's per-request report", {}, 1)};
  // Objects and arrays of any tool: Open() finds out whose they are.
  formats.front().recognises = [keyed = formats.front().recognises](std::string_view line) {
    return BeginsObject(line) || keyed(line);
  };
  formats.back().recognises = [](std::string_view line) { return line.starts_with('['); };
  return formats;
}

}  // namespace twin
