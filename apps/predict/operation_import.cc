#include "apps/predict/operation_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "apps/predict/operation_predictor.h"
#include "apps/predict/operation_rows.h"
#include "apps/predict/simplex_search.h"
#include "core/files/csv.h"
#include "core/statistics.h"
#include "sim/devices/operations/measured_operation.h"
#include "sim/devices/operations/operation_table.h"

namespace twin::run {
namespace {

constexpr double kOperationUsMax = 1e12;
constexpr std::size_t kOperationFitRows = 500;
constexpr int kOperationEvaluations = 500;
constexpr double kOperationErrorMax = 0.6;
constexpr double kSdsAtP90 = 1.645;
constexpr std::size_t kLeftOutShapes = 40;
constexpr std::size_t kLeftOutCalls = 400;  // of a shape

using SizeList = std::vector<double>;
using CallTimes = std::map<SizeList, double>;  // logarithms of seconds, by call
using ShapeTimes = std::map<SizeList, CallTimes>;

struct Timed {
  sim::OperationWork work;
  double log_seconds = 0;
};

// The tables of a file, by library and variant. A later row of the same call replaces an earlier
// one, unless another model has the same sizes: then the mean counts.
using Tables = std::map<std::pair<sim::KernelLibrary, std::string>, ShapeTimes>;

Tables ReadTables(const sim::OperationKind& kind, const std::string& path,
                  const RunControl& control) {
  std::vector<std::string_view> required = RequiredColumnsOf(kind);
  required.emplace_back("latency_us");
  CsvTable table(path, required);
  std::map<std::pair<sim::KernelLibrary, std::string>, std::map<SizeList, std::map<SizeList, int>>>
      counts;
  Tables tables;
  while (table.Next()) {
    EndIfStopped(control);
    const OperationCall call = ReadOperationCall(kind, table);
    const std::pair key{call.library, call.variant};
    const double log_seconds = std::log(1e-6 * table.Positive("latency_us", kOperationUsMax));
    const int count = ++counts[key][call.shape][call.call];
    double& mean = tables[key][call.shape][call.call];
    mean += (log_seconds - mean) / count;
  }
  return tables;
}

std::vector<Timed> TimedOf(const sim::OperationKind& kind, const std::string& variant,
                           const ShapeTimes& shapes) {
  std::vector<Timed> all;
  for (const auto& [shape, calls] : shapes) {
    for (const auto& [call, log_seconds] : calls) {
      all.push_back({kind.work(shape, call, variant), log_seconds});
    }
  }
  return all;
}

std::vector<double> FormErrors(const HardwareSpec& hardware,
                               const sim::OperationCoefficients& coefficients,
                               const std::vector<Timed>& rows) {
  const sim::OperationForm form(hardware, coefficients);
  std::vector<double> errors;
  errors.reserve(rows.size());
  for (const Timed& row : rows)
    errors.push_back(std::log(form.Seconds(row.work)) - row.log_seconds);
  return errors;
}

sim::OperationCoefficients FitForm(const HardwareSpec& hardware, const std::vector<Timed>& rows,
                                   const RunControl& control) {
  std::vector<Timed> sample;
  const std::size_t count = std::min(kOperationFitRows, rows.size());
  double least = rows.front().log_seconds;
  for (std::size_t i = 0; i < count; ++i) sample.push_back(rows[i * rows.size() / count]);
  for (const Timed& row : rows) least = std::min(least, row.log_seconds);
  const double floor = std::exp(least);
  const std::vector<SearchRange> ranges = {{0.05 * floor, 0.8 * floor, 3 * floor},
                                           {1e-10, 0.1e-6, 30e-6},
                                           {1e-10, 0.1e-6, 100e-6},
                                           {0.005, 0.4, 1},
                                           {0.005, 0.6, 1},
                                           {1, 2, 8}};
  const auto coefficients_of = [](const std::vector<double>& values) {
    sim::OperationCoefficients coefficients;
    for (std::size_t i = 0; i < values.size(); ++i) *coefficients.fields()[i] = values[i];
    return coefficients;
  };
  std::vector<double> best =
      SearchMinimum(ranges, kOperationEvaluations, [&](const std::vector<double>& values) {
        EndIfStopped(control);
        double sum = 0;
        for (const double error : FormErrors(hardware, coefficients_of(values), sample)) {
          sum += std::min(std::abs(error), kOperationErrorMax);
        }
        return sum / static_cast<double>(sample.size());
      });
  for (double& value : best) value = std::strtod(fmt::format("{:.4g}", value).c_str(), nullptr);
  return coefficients_of(best);
}

sim::OperationGrid GridOf(const ShapeTimes& shapes) {
  std::set<std::uint32_t> axes[3];
  for (const auto& [shape, calls] : shapes) {
    for (const auto& [call, log_seconds] : calls) {
      for (std::size_t i = 0; i < call.size(); ++i) {
        axes[3 - call.size() + i].insert(static_cast<std::uint32_t>(call[i]));
      }
    }
  }
  const auto list = [](const std::set<std::uint32_t>& axis) {
    return axis.empty() ? std::vector<std::uint32_t>{1}
                        : std::vector<std::uint32_t>(axis.begin(), axis.end());
  };
  return {list(axes[0]), list(axes[1]), list(axes[2])};
}

std::uint32_t IndexOfGrid(const sim::OperationGrid& grid, sim::OperationProfile& profile) {
  const auto found = std::ranges::find(profile.grids, grid);
  const auto index = static_cast<std::uint32_t>(found - profile.grids.begin());
  if (found == profile.grids.end()) profile.grids.push_back(grid);
  return index;
}

std::string RowOf(const HardwareSpec& hardware, const sim::OperationKind& kind,
                  const sim::OperationTable& table, const sim::OperationGrid& grid,
                  const SizeList& shape, const CallTimes& calls) {
  const sim::OperationForm form(hardware, table.coefficients);
  sim::OperationRow row{shape, {}};
  const std::vector<std::uint32_t>* const axes[3] = {&grid.first, &grid.second, &grid.third};
  for (const std::uint32_t first : *axes[0]) {
    for (const std::uint32_t second : *axes[1]) {
      for (const std::uint32_t third : *axes[2]) {
        SizeList call = {static_cast<double>(first), static_cast<double>(second),
                         static_cast<double>(third)};
        call.erase(call.begin(), call.end() - static_cast<std::ptrdiff_t>(kind.call.size()));
        const auto found = calls.find(call);
        row.log_ratios.push_back(
            found == calls.end()
                ? sim::kNoMeasurement
                : found->second - std::log(form.Seconds(kind.work(shape, call, table.variant))));
      }
    }
  }
  return PrintOperationRow(row, grid);
}

double P90(std::vector<double> errors) {
  for (double& error : errors) error = std::abs(error);
  return Quantile(std::move(errors), 0.9);
}

std::string PercentText(std::vector<double> errors) {
  for (double& error : errors) error = std::abs(std::expm1(error));
  return errors.empty() ? "-"
                        : fmt::format("{:.1f}/{:.1f}", 100 * Quantile(errors, 0.5),
                                      100 * Quantile(errors, 0.9));
}

double RoundedSd(double sd) { return std::max(1e-4, std::round(1e4 * sd) / 1e4); }

// Errors of shapes left out; `standard` has them over the standard deviation of kriging.
std::vector<double> LeftOut(const HardwareSpec& hardware, const sim::OperationKind& kind,
                            const sim::OperationTable& table, const sim::OperationGrid& grid,
                            const ShapeTimes& shapes, std::vector<double>& standard) {
  std::vector<double> errors;
  if (shapes.size() < 2) return errors;
  const std::size_t step = (shapes.size() + kLeftOutShapes - 1) / kLeftOutShapes;
  std::size_t index = 0;
  sim::OperationProfile others{{grid}, {table}};
  sim::OperationTable& other = others.tables.front();
  other.grid = 0;
  other.measured_sd = 0;
  other.shape_sd = 1;
  for (const auto& [shape, calls] : shapes) {
    if (index++ % step != 0) continue;
    other.rows = table.rows;
    other.rows.erase(other.rows.begin() + static_cast<std::ptrdiff_t>(index - 1));
    const sim::MeasuredOperation model(hardware, kind, table.library, table.variant, shape, others);
    const std::size_t thin = (calls.size() + kLeftOutCalls - 1) / kLeftOutCalls;
    std::size_t position = 0;
    for (const auto& [call, log_seconds] : calls) {
      if (position++ % thin != 0) continue;
      const sim::TimeEstimate estimate = model(call);
      errors.push_back(std::log(estimate.seconds) - log_seconds);
      standard.push_back(errors.back() / std::max(0.01, estimate.log_sd));
    }
  }
  return errors;
}

}  // namespace

std::vector<std::string> ImportOperations(const HardwareSpec& hardware,
                                          const sim::OperationKind& kind, const std::string& path,
                                          sim::OperationProfile& profile,
                                          const RunControl& control) {
  std::vector<std::string> report;
  for (const auto& [key, shapes] : ReadTables(kind, path, control)) {
    sim::OperationTable table;
    table.kind = kind.name;
    table.library = key.first;
    table.variant = key.second;
    const std::vector<Timed> timed = TimedOf(kind, table.variant, shapes);
    table.coefficients = FitForm(hardware, timed, control);
    const std::vector<double> errors = FormErrors(hardware, table.coefficients, timed);
    table.log_sd = RoundedSd(P90(errors) / kSdsAtP90);
    const sim::OperationGrid grid = GridOf(shapes);
    for (const auto& [shape, calls] : shapes) {
      table.rows.push_back(RowOf(hardware, kind, table, grid, shape, calls));
    }
    std::vector<double> standard;
    const std::vector<double> left_out = LeftOut(hardware, kind, table, grid, shapes, standard);
    table.shape_sd = standard.empty() ? table.log_sd : RoundedSd(P90(standard) / kSdsAtP90);
    table.grid = IndexOfGrid(grid, profile);
    report.push_back(fmt::format("{} {} {}: {}, {}, {}", kind.name, NameOf(table.library),
                                 table.variant, timed.size(), PercentText(errors),
                                 PercentText(left_out)));
    profile.tables.push_back(std::move(table));
  }
  return report;
}

}  // namespace twin::run
