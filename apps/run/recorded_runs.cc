#include "apps/run/recorded_runs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include "config/models/model_names.h"
#include "config/servers/servers.h"
#include "core/check.h"
#include "core/csv.h"
#include "core/number_text.h"

namespace twin::apps {
namespace {

// Model, device, ranks, server.
using SystemName = std::tuple<std::string, std::string, int, std::string>;

// Sums of the absolute errors of one metric.
struct ErrorSum {
  double sum = 0;
  int count = 0;

  [[nodiscard]] double Mean() const { return count == 0 ? 0 : sum / count; }
};

// Errors by metric.
using SystemErrors = std::map<std::string, ErrorSum, std::less<>>;

template <class Number>
Number NumberOf(std::string_view text) {
  const auto number = NumberFrom<Number>(text);
  CHECK(number.has_value());
  return *number;
}

// The errors of the runs to which nothing was fitted. Columns: data_set, run, part, gpu, model,
// tensor, side, failed, metric, error_pct, noise_pct, server.
std::map<SystemName, SystemErrors> ReadErrors() {
  enum Column {
    kPart = 2,
    kGpu = 3,
    kModel = 4,
    kTensor = 5,
    kFailed = 7,
    kMetric = 8,
    kError = 9,
    kServer = 11
  };
  std::map<SystemName, SystemErrors> systems;
  std::string_view rest = RecordedErrorTables().front().bytes;
  CsvCells row;
  for (bool is_header = true; !rest.empty(); is_header = false) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    CHECK(row.Split(rest.substr(0, end)) == CsvCells::Result::kSplit);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::vector<std::string_view>& cells = row.cells();
    if (is_header || cells[kFailed] != "0" || cells[kPart] != "judge") continue;
    SystemErrors& errors = systems[{std::string(cells[kModel]), std::string(cells[kGpu]),
                                    NumberOf<int>(cells[kTensor]), std::string(cells[kServer])}];
    ErrorSum& sum = errors[std::string(cells[kMetric])];
    sum.sum += std::abs(NumberOf<double>(cells[kError]));
    ++sum.count;
  }
  return systems;
}

std::vector<RecordedRuns> ReadRecordedRuns() {
  std::vector<RecordedRuns> all;
  for (auto& [name, errors] : ReadErrors()) {
    if (!errors.contains("e2e_mean")) continue;
    all.push_back({.model = std::get<0>(name),
                   .device = std::get<1>(name),
                   .tensor = std::get<2>(name),
                   .server = std::get<3>(name),
                   .runs = errors["e2e_mean"].count,
                   .ttft_error_pct = errors["ttft_mean"].Mean(),
                   .tpot_error_pct = errors["tpot_mean"].Mean(),
                   .e2e_error_pct = errors["e2e_mean"].Mean()});
  }
  return all;
}

double ParametersPerRank(const ModelSpec& model, int ranks) {
  return static_cast<double>(TotalParameters(model)) / ranks;
}

const std::vector<RecordedRuns>& AllRecordedRuns() {
  static const std::vector<RecordedRuns> all = ReadRecordedRuns();
  return all;
}

}  // namespace

std::optional<RecordedRuns> NearestRecordedRuns(const SystemConfig& system) {
  if (!system.groups.empty()) return std::nullopt;
  std::vector<RecordedRuns> all = AllRecordedRuns();
  if (system.server) {
    const Server* const server = FindServer(*system.server).value().server;
    std::erase_if(all, [&](const RecordedRuns& recorded) {
      return FindServer(recorded.server).value().server != server;
    });
    if (all.empty()) return std::nullopt;
  }
  const bool is_mixture = MostExperts(system.model_spec) > 0;
  const double size = ParametersPerRank(system.model_spec, system.parallelism.devices());
  const auto distance = [&](const RecordedRuns& recorded) {
    const ModelSpec model = ModelPreset(recorded.model);
    return std::tuple(recorded.device != system.hardware_spec.name,
                      (MostExperts(model) > 0) != is_mixture,
                      std::abs(std::log(ParametersPerRank(model, recorded.tensor) / size)));
  };
  return *std::ranges::min_element(all, {}, distance);
}

}  // namespace twin::apps
