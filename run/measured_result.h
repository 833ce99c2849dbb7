// Results as `compare` and `report` read them: run directories of this program, and files of
// benchmark tools, whose numbers get the keys of summary.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "run/record/summary.h"
#include "traces/benchmark_run.h"

namespace twin::run {

struct RunResult {
  std::string name;
  std::filesystem::path path;
  Summary summary;
  std::optional<BenchmarkRun> measured{};  // nullopt: `path` is a run directory
};

// Run directories, and files that ReadBenchmarkRuns takes: one result per run in it, in their
// order. Results of one name have as many folders before it as tell their paths apart. Throws
// InputError as ReadSummary and ReadBenchmarkRuns.
std::vector<RunResult> ReadResults(std::span<const std::filesystem::path> paths);

// Notes of the files of measured runs, a line each: "NAME: text".
std::vector<std::string> NotesOf(std::span<const RunResult> results);

// The numbers of a measured run under the keys of summary.json: of its requests by the formulas of
// run/record/metric_catalog.h, or where it has no requests, those that the file states. Keys that
// it says nothing about are left out; so are gaps between chunks of several tokens.
Summary MeasuredSummary(const BenchmarkRun& run);

// The columns that requests.csv and a measured run have in common.
inline constexpr const char* kRequestColumns[] = {"arrival_s", "prompt_tokens", "output_tokens",
                                                  "ttft_ms",   "tpot_ms",       "e2el_ms"};
// The cells of a request under kRequestColumns, empty for times that are not known: for all of
// a failed request but its arrival, and for the arrival without `has_times`.
std::vector<std::string> RequestCells(const BenchmarkRequest& request, bool has_times);

// The run as a folder for figures: measured.json (what was measured), summary.json, requests.csv
// with the completed requests, and vllm_bench.json where there is a gap for each token.
void WriteMeasuredFolder(const BenchmarkRun& run, const std::filesystem::path& folder);

// "measured (vLLM bench): 3 of 4 requests completed", and the file's notes.
std::string MeasuredText(const BenchmarkRun& run);

}  // namespace twin::run
