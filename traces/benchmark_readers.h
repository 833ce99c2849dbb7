// The readers behind ReadBenchmarkRuns (benchmark_run.h), one per kind of file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/files/line_reader.h"
#include "traces/benchmark_run.h"
#include "traces/json_fields.h"

namespace twin {

// All throw InputError at the place of `lines`. Names of runs, and the rules that all runs keep
// (measured_rules.h), are left to ReadBenchmarkRuns and ReadJsonRuns.

// As ReadBenchmarkRuns, for the JSON in `lines`, which is not read yet.
std::vector<BenchmarkRun> ReadJsonRuns(LineReader& lines);
// A result of `vllm bench serve --save-result` or of SGLang's bench_serving.
BenchmarkRun ReadBenchResult(const nlohmann::json& document, const LineReader& lines);
// guidellm: one run per benchmark. Where it lists no requests, or a sample of them, the run has
// totals alone.
std::vector<BenchmarkRun> ReadGuidellm(const nlohmann::json& document, const LineReader& lines);
// The records of AIPerf, and its summary; null: there is none.
BenchmarkRun ReadAiPerfRecords(const nlohmann::json& records, const nlohmann::json& summary,
                               const LineReader& lines);
// The statistics of AIPerf's or genai-perf's summary.
BenchmarkRun ReadAiPerfSummary(const nlohmann::json& summary, const LineReader& lines);
BenchmarkRun ReadInferencePerfReport(const nlohmann::json& document, const LineReader& lines);
// A log of requests as JSON objects.
BenchmarkRun ReadRequestObjects(const nlohmann::json& rows, const LineReader& lines);
// A log of requests as a CSV file.
BenchmarkRun ReadRequestTable(const std::string& path);

// Totals of a whole run: statistics of AIPerf's summary, or of the metrics of a benchmark of
// guidellm, with notes on what is not read.
void AddAiPerfTotals(const JsonRequestFields& summary, BenchmarkRun& run);
void AddGuidellmTotals(const JsonRequestFields& benchmark, BenchmarkRun& run);

// Names of the columns and keys of a log of requests.
inline constexpr std::string_view kPromptNames[] = {"prompt_tokens", "in_tokens", "input_tokens"};
inline constexpr std::string_view kOutputNames[] = {"output_tokens", "out_tokens"};

// The option of this program that a key of a benchmark's metadata or of a server's arguments stands
// for, such as --tp for tensor_parallel_size; empty for all other keys.
std::string_view OptionOfKey(std::string_view key);

// Adds what `value` says under `key`, unless it is null, empty, or one replica. Of two values of
// one setting the first holds, and a note names both.
void AddFact(std::string_view key, const nlohmann::json& value, const std::string& origin,
             BenchmarkRun& run);

}  // namespace twin
