#include "lab/validation/measured_run.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "core/input_error.h"
#include "record/csv_columns.h"
#include "traces/csv_header.h"

namespace twin::lab {
namespace {

constexpr std::size_t kTimeColumns = 5;  // before the parts

// One row; its errors name file and line.
class Row {
 public:
  Row(const std::string& file, std::size_t line, std::string_view text, std::size_t cells)
      : where_(fmt::format("{} line {}", file, line)) {
    SplitCsvLine(text, cells_);
    if (cells_.size() != cells) {
      throw InputError(InputError::Kind::kData, where_,
                       fmt::format("has {} cells; allowed: {}", cells_.size(), cells));
    }
  }

  // A cell in units of `unit` nanoseconds, to the nanosecond.
  [[nodiscard]] Duration Time(std::size_t column, double unit) const {
    const std::string_view cell = cells_[column];
    double value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    const double ns = value * unit;
    if (error != std::errc{} || end != cell.data() + cell.size() || !(std::abs(ns) < 9e15)) {
      throw InputError(
          InputError::Kind::kData, where_,
          fmt::format("cell {} is '{}'; allowed: a time of at most 104 days", column + 1, cell));
    }
    return DurationFromNanoseconds(std::round(ns));
  }

  void RequireStep(std::size_t number) const {
    if (cells_[0] == std::to_string(number)) return;
    throw InputError(
        InputError::Kind::kData, where_,
        fmt::format("is of step '{}'; allowed: {}, as steps are in order", cells_[0], number));
  }

 private:
  std::string where_;
  std::vector<std::string_view> cells_;
};

void RequireFile(const std::filesystem::path& directory, const char* name) {
  if (std::filesystem::exists(directory / name)) return;
  throw InputError(InputError::Kind::kUsage, directory.string(),
                   fmt::format("has no {}; allowed: a run directory of a real world with "
                               "outputs.record",
                               name));
}

double NumberIn(const nlohmann::json& summary, const char* key) {
  const auto found = summary.find(key);
  return found != summary.end() && found->is_number() ? found->get<double>() : 0.0;
}

// What the summary says of the machine, as far as it does.
void ReadMachine(const std::filesystem::path& summary, MeasuredRun& run) {
  std::ifstream in(summary);
  const nlohmann::json json = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return;
  if (json.contains("machine_disturbed")) {
    run.machine = RunMachine{.steal_share = NumberIn(json, "machine_steal_share"),
                             .other_load = NumberIn(json, "machine_other_load"),
                             .disturbed = NumberIn(json, "machine_disturbed") != 0};
  }
  const RunProbes probes{.decode_s = 1e-6 * NumberIn(json, "machine_decode_probe_us"),
                         .prefill_s = 1e-6 * NumberIn(json, "machine_prefill_probe_us")};
  if (probes.decode_s > 0 && probes.prefill_s > 0) run.probes = probes;
}

}  // namespace

std::vector<StepTimes> ReadStepTimes(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string text;
  std::string columns = HeaderLine(PartColumns());
  columns.pop_back();
  // Runs of earlier versions have no column of clocks.
  const std::string before = columns.substr(0, columns.rfind(','));
  if (!std::getline(in, text) || (text != columns && text != before)) {
    throw InputError(InputError::Kind::kData, file.string() + " line 1",
                     "names other columns; allowed: " + columns);
  }
  const std::size_t parts = text == columns ? kStepPartCount : kMeasuredPartCount;
  std::vector<StepTimes> steps;
  while (std::getline(in, text)) {
    const Row row(file.string(), steps.size() + 2, text, kTimeColumns + parts);
    row.RequireStep(steps.size() + 1);
    StepTimes& times = steps.emplace_back();
    times.planned = kTimeZero + row.Time(1, 1e9);
    times.started = kTimeZero + row.Time(2, 1e9);
    times.finished = kTimeZero + row.Time(3, 1e9);
    times.told = kTimeZero + row.Time(4, 1e9);
    for (std::size_t i = 0; i < parts; ++i) {
      times.parts.times[i] = row.Time(kTimeColumns + i, 1e6);
    }
  }
  return steps;
}

void ReadEvents(RecordReader& reader, RecordedRun& events) {
  Instant instant;
  while (reader.NextInstant(instant)) {
    events.OnInstant(instant);
    while (const StepPlan* plan = reader.NextPlan()) events.OnPlan(instant.now, *plan);
  }
}

void ReadMeasuredRun(const std::filesystem::path& directory, MeasuredRun& run) {
  for (const char* name : {"record.pb", "parts.csv"}) RequireFile(directory, name);
  run.path = directory;
  RecordReader reader(directory / "record.pb");
  run.header = reader.header();
  run.config = ParseExperiment(run.header.config, (directory / "record.pb").string() + ": config",
                               directory);
  ReadEvents(reader, run.events);
  run.steps = ReadStepTimes(directory / "parts.csv");
  ReadMachine(directory / "summary.json", run);
}

}  // namespace twin::lab
