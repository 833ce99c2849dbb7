// The readers behind ReadBenchmarkRuns (benchmark_run.h), one per kind of file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/files/line_reader.h"
#include "traces/benchmark_run.h"

namespace twin {

// All throw InputError at the place of `lines`. Names of runs are left to the caller.

// A result of `vllm bench serve --save-result` or of SGLang's bench_serving.
BenchmarkRun ReadBenchResult(const nlohmann::json& document, const LineReader& lines);
// guidellm: one run per benchmark.
std::vector<BenchmarkRun> ReadGuidellm(const nlohmann::json& document, const LineReader& lines);
// The records of AIPerf, and its summary; null: there is none.
BenchmarkRun ReadAiPerfRecords(const nlohmann::json& records, const nlohmann::json& summary,
                               const LineReader& lines);
BenchmarkRun ReadInferencePerfReport(const nlohmann::json& document, const LineReader& lines);
// A log of requests as JSON objects.
BenchmarkRun ReadRequestObjects(const nlohmann::json& rows, const LineReader& lines);
// A log of requests as a CSV file.
BenchmarkRun ReadRequestTable(const std::string& path);

// The option that a key of a benchmark's metadata or of a server's arguments stands for, such as
// --tp for tensor_parallel_size; empty for all other keys.
std::string_view OptionOfKey(std::string_view key);

// Adds what `value` says under `key`, unless it is null or the key means nothing.
void AddFact(std::string_view key, const nlohmann::json& value, const std::string& origin,
             BenchmarkRun& run);

}  // namespace twin
