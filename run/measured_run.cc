#include "run/measured_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <optional>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "core/files/csv.h"
#include "core/input_error.h"
#include "core/number_text.h"
#include "run/record/csv_columns.h"

namespace twin::run {
namespace {

// Reads a field of the row in units of `unit` nanoseconds; exact to the nanosecond.
Duration TimeOf(const CsvTable& table, std::size_t column, double unit) {
  const std::optional<double> value = NumberFrom<double>(table.cells()[column]);
  if (!value || !(std::abs(*value * unit) < 9e15)) {
    table.Refuse(table.columns()[column], "a time of at most 104 days");
  }
  return DurationFromNanoseconds(std::round(*value * unit));
}

// Number of columns of parts in the file. Throws InputError if it has other columns than a run's.
std::size_t PartsIn(const CsvTable& table) {
  for (const bool replica : {false, true}) {
    const auto columns = PartColumns(FurtherColumns{.replica = replica});
    if (std::ranges::equal(table.columns(), columns, {}, {}, &TableColumn::name)) {
      return kStepPartCount;
    }
  }
  // Runs of earlier versions have no column of clocks.
  const std::span<const TableColumn> before = PartColumns().first(PartColumns().size() - 1);
  if (std::ranges::equal(table.columns(), before, {}, {}, &TableColumn::name)) {
    return kMeasuredPartCount;
  }
  std::string header = HeaderLine(PartColumns());
  header.pop_back();
  table.lines().RefuseField("header", fmt::format("{}", fmt::join(table.columns(), ",")), header);
}

// The steps of all replicas in the order of the plans, without steps that the record lacks.
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

// Fills in the load and the probes of the machine, as far as the summary has them.
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
  constexpr std::size_t kTimeColumns = 5;  // before the parts
  CsvTable table(file.string());
  const std::size_t parts = PartsIn(table);
  std::vector<std::vector<StepTimes>> steps(1);
  while (table.Next()) {
    const auto replica = static_cast<std::size_t>(
        table.Has("replica") ? table.Integer("replica", 0, UINT16_MAX) : 0);
    if (replica >= steps.size()) steps.resize(replica + 1);
    const std::string number = std::to_string(steps[replica].size() + 1);
    if (table.Text("step") != number) {
      table.Refuse("step", fmt::format("{}, as steps are in order", number));
    }
    StepTimes& times = steps[replica].emplace_back();
    times.planned = kTimeZero + TimeOf(table, 1, 1e9);
    times.started = kTimeZero + TimeOf(table, 2, 1e9);
    times.finished = kTimeZero + TimeOf(table, 3, 1e9);
    times.told = kTimeZero + TimeOf(table, 4, 1e9);
    for (std::size_t i = 0; i < parts; ++i) {
      times.parts.times[i] = TimeOf(table, kTimeColumns + i, 1e6);
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
