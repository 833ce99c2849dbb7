#include <fmt/format.h>

#include <sstream>
#include <utility>

#include "apps/report/run_figures.h"
#include "config/text_message.h"
#include "run/measured_result.h"

namespace twin::run {
namespace {

namespace fs = std::filesystem;

std::optional<CsvFile> OptionalTable(const fs::path& file) {
  if (!fs::exists(file)) return std::nullopt;
  return CsvFile(file);
}

// Nothing of a run without requests.
std::optional<CsvFile> RequestTable(const BenchmarkRun& run) {
  if (run.requests.empty()) return std::nullopt;
  std::vector<std::vector<std::string>> rows;
  for (const BenchmarkRequest& request : run.requests) {
    if (request.completed) rows.push_back(RequestCells(request, run.has_times));
  }
  return CsvFile(run.name, {std::begin(kRequestColumns), std::end(kRequestColumns)}, rows);
}

// The files of a run directory other than its summary.
void ReadFiles(ReportedRun& run) {
  const fs::path& path = run.path;
  if (fs::exists(path / "config.resolved.textproto")) {
    run.config = ReadTextFile(path / "config.resolved.textproto");
  }
  run.requests = OptionalTable(path / "requests.csv");
  run.steps = OptionalTable(path / "steps.csv");
  run.series = OptionalTable(path / "series.csv");
  run.parts = OptionalTable(path / "parts.csv");
}

std::string Trimmed(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(' ');
  return begin == std::string::npos ? "" : line.substr(begin);
}

double NumberOr(const Summary& summary, const char* name, double otherwise) {
  const SummaryValue* value = summary.Find(name);
  if (value == nullptr || std::holds_alternative<std::string>(*value)) return otherwise;
  return summary.Number(name);
}

}  // namespace

std::vector<ReportedRun> ReadReportedRuns(std::span<const fs::path> paths) {
  std::vector<ReportedRun> runs;
  for (RunResult& result : ReadResults(paths)) {
    ReportedRun& run = runs.emplace_back();
    run.name = std::move(result.name);
    run.path = result.path;
    run.summary = std::move(result.summary);
    run.measured = std::move(result.measured);
    if (run.measured) {
      run.requests = RequestTable(*run.measured);
    } else {
      ReadFiles(run);
    }
  }
  return runs;
}

std::vector<std::pair<std::string, std::string>> ConfigFields(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> fields;
  std::vector<std::string> path;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line = Trimmed(line);
    const std::size_t colon = line.find(": ");
    if (line.ends_with('{')) {
      path.push_back(line.substr(0, line.find_first_of(" {")));
    } else if (line == "}" && !path.empty()) {
      path.pop_back();
    } else if (colon != std::string::npos && !line.starts_with('#')) {
      std::string name;
      for (const std::string& part : path) name += part + ".";
      name += line.substr(0, colon);
      std::string value = line.substr(colon + 2);
      if (value.size() >= 2 && value.front() == '"') value = value.substr(1, value.size() - 2);
      if (!fields.empty() && fields.back().first == name) {
        fields.back().second += ", " + value;
      } else {
        fields.emplace_back(name, value);
      }
    }
  }
  return fields;
}

std::pair<std::string, std::string> SaturationVerdict(const Summary& summary) {
  const SummaryValue* value = summary.Find("saturated");
  const auto* verdict = value == nullptr ? nullptr : std::get_if<std::string>(value);
  if (verdict == nullptr) {
    return {"unsure", "The run does not say whether it was offered more than it can serve."};
  }
  const std::string rates =
      fmt::format("offered {:.4g} requests/s; completed {:.4g} requests/s under load",
                  NumberOr(summary, "offered_rate", 0), NumberOr(summary, "completed_rate", 0));
  if (*verdict == "yes") {
    return {"bad", fmt::format("Saturated: offered rate exceeds capacity, so latencies grow with "
                               "the length of the run ({}).",
                               rates)};
  }
  if (*verdict == "no") {
    return {"good", fmt::format("Not saturated: the queue does not grow with the length of the run "
                                "({}).",
                                rates)};
  }
  return {"unsure",
          fmt::format("Undecided whether it is saturated: the run is too short, or too close to "
                      "capacity, to tell whether the queue grows ({}).",
                      rates)};
}

}  // namespace twin::run
