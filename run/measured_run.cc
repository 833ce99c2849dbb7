#include "run/measured_run.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "core/input_error.h"
#include "run/record/csv_columns.h"
#include "traces/csv_reader.h"

namespace twin::run {
namespace {

constexpr std::size_t kTimeColumns = 5;  // before the parts

// One row; its errors name file and line.
class Row {
 public:
  Row(const std::string& file, std::size_t line, std::string_view text, std::size_t cells)
      : where_(fmt::format("{} line {}", file, line)) {
    split_.Split(text);
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

  [[nodiscard]] std::size_t Replica(std::size_t column) const {
    const std::string_view cell = cells_[column];
    std::uint16_t value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error == std::errc{} && end == cell.data() + cell.size()) return value;
    throw InputError(InputError::Kind::kData, where_,
                     fmt::format("cell {} is '{}'; allowed: a replica's index", column + 1, cell));
  }

  void RequireStep(std::size_t number) const {
    if (cells_[0] == std::to_string(number)) return;
    throw InputError(
        InputError::Kind::kData, where_,
        fmt::format("is of step '{}'; allowed: {}, as steps are in order", cells_[0], number));
  }

 private:
  std::string where_;
  CsvCells split_;
  const std::vector<std::string_view>& cells_ = split_.cells();
};

// Which columns a file has.
struct PartLayout {
  std::size_t parts = kStepPartCount;
  bool replica = false;  // as the last one
};

PartLayout LayoutOf(const std::string& header, const std::string& file) {
  const auto columns = [](bool replica) {
    std::string line = HeaderLine(PartColumns(FurtherColumns{.replica = replica}));
    line.pop_back();
    return line;
  };
  if (header == columns(false)) return {};
  if (header == columns(true)) return {.replica = true};
  // Runs of earlier versions have no column of clocks.
  const std::string before = columns(false).substr(0, columns(false).rfind(','));
  if (header == before) return {.parts = kMeasuredPartCount};
  throw InputError(InputError::Kind::kData, file + " line 1",
                   "names other columns; allowed: " + columns(false));
}

// The steps of all replicas in the order of the plans, without those that the record lacks.
std::vector<StepTimes> InOrderOfPlanning(const std::vector<std::vector<StepTimes>>& by_replica,
                                         const RecordedRun& events) {
  if (by_replica.size() == 1) return by_replica.front();
  std::vector<StepTimes> steps;
  for (const RecordedRun::Moment& moment : events.moments()) {
    for (const StepPlan& plan : moment.plans) {
      const auto replica = static_cast<std::size_t>(plan.replica);
      const auto step = static_cast<std::size_t>(Index(plan.id)) - 1;
      if (replica >= by_replica.size() || step >= by_replica[replica].size()) return steps;
      steps.push_back(by_replica[replica][step]);
    }
  }
  return steps;
}

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

std::vector<std::vector<StepTimes>> ReadStepTimesByReplica(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string text;
  std::getline(in, text);
  const PartLayout layout = LayoutOf(text, file.string());
  const std::size_t cells = kTimeColumns + layout.parts + (layout.replica ? 1 : 0);
  std::vector<std::vector<StepTimes>> steps(1);
  std::size_t line = 1;
  while (std::getline(in, text)) {
    const Row row(file.string(), ++line, text, cells);
    const std::size_t replica = layout.replica ? row.Replica(cells - 1) : 0;
    if (replica >= steps.size()) steps.resize(replica + 1);
    row.RequireStep(steps[replica].size() + 1);
    StepTimes& times = steps[replica].emplace_back();
    times.planned = kTimeZero + row.Time(1, 1e9);
    times.started = kTimeZero + row.Time(2, 1e9);
    times.finished = kTimeZero + row.Time(3, 1e9);
    times.told = kTimeZero + row.Time(4, 1e9);
    for (std::size_t i = 0; i < layout.parts; ++i) {
      times.parts.times[i] = row.Time(kTimeColumns + i, 1e6);
    }
  }
  return steps;
}

std::vector<StepTimes> ReadStepTimes(const std::filesystem::path& file) {
  std::vector<StepTimes> all;
  for (const std::vector<StepTimes>& steps : ReadStepTimesByReplica(file)) {
    all.insert(all.end(), steps.begin(), steps.end());
  }
  return all;
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
  run.steps = InOrderOfPlanning(ReadStepTimesByReplica(directory / "parts.csv"), run.events);
  ReadMachine(directory / "summary.json", run);
}

}  // namespace twin::run
