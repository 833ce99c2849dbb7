// Figures of the page of one run or several runs.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/page/page.h"
#include "apps/report/csv_file.h"
#include "run/record/summary.h"
#include "traces/benchmark_run.h"

namespace twin::run {

// A run directory or a measured run as it was read; tables that it does not have are empty.
struct ReportedRun {
  std::string name;
  std::filesystem::path path;
  Summary summary;
  std::string config;  // config.resolved.textproto; empty: none
  std::optional<BenchmarkRun> measured;
  std::optional<CsvFile> requests;  // of a measured run: those that completed
  std::optional<CsvFile> steps;
  std::optional<CsvFile> series;
  std::optional<CsvFile> parts;

  // Whether the requests' times of arrival are known.
  [[nodiscard]] bool has_arrivals() const { return requests && (!measured || measured->has_times); }
};

// The runs of directories and of measured files (run/measured_result.h). Throws InputError: a path
// is no run directory (usage), a file of it is damaged (data).
std::vector<ReportedRun> ReadReportedRuns(std::span<const std::filesystem::path> paths);

// The fields of a resolved configuration by path, in order; elements of lists are joined by commas.
std::vector<std::pair<std::string, std::string>> ConfigFields(const std::string& text);

// Whether latencies are properties of the system: "good", "bad" or "unsure", and a sentence.
std::pair<std::string, std::string> SaturationVerdict(const Summary& summary);

// Each function adds the figures for which the runs have files: distributions of latencies,
// latencies over the time of arrival, requests and KV cache over time, composition of batches,
// parts of steps.
void AddLatencyFigures(Page& page, const std::vector<ReportedRun>& runs);
void AddLoadFigures(Page& page, const std::vector<ReportedRun>& runs);
void AddStepFigures(Page& page, const std::vector<ReportedRun>& runs);

}  // namespace twin::run
