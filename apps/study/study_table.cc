#include "apps/study/study_table.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <ostream>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "apps/study/metric_columns.h"
#include "core/files/csv.h"
#include "core/number_text.h"
#include "run/record/metric_catalog.h"

namespace twin::run {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kMainMetrics[] = {
    "mean_ttft_ms",      "p99_ttft_ms",    "p99_tpot_ms", "completed_rate",
    "output_token_rate", "slo_attainment", "good_rate"};

struct StudyPoint {
  std::string number;
  std::vector<std::string> settings;  // by column of the study
  std::string n;
  std::string errors;
  std::string saturated;
  std::vector<IntervalEstimate> estimates;  // by metric
};

struct StudyPoints {
  std::vector<std::string> metrics;
  std::vector<StudyPoint> points;
};

double NumberOrNothing(std::string_view cell) {
  return NumberFrom<double>(cell).value_or(std::numeric_limits<double>::quiet_NaN());
}

// Metrics of summary.csv: the columns with a column KEY_low beside them.
std::vector<std::string> MetricsOf(const CsvTable& table) {
  std::vector<std::string> metrics;
  for (const std::string& column : table.columns()) {
    if (table.Has(column + "_low") && table.Has(column + "_high")) metrics.push_back(column);
  }
  return metrics;
}

std::size_t RunsWantedOf(const CsvTable& table, const std::string& metric) {
  const std::string column = metric + "_runs_wanted";
  return table.Has(column) ? NumberFrom<std::size_t>(table.Text(column)).value_or(0) : 0;
}

StudyPoints ReadPoints(const Study& study, const std::filesystem::path& summary) {
  std::vector<std::string_view> required = {"point", "n", "errors", "saturated"};
  required.insert(required.end(), study.columns().begin(), study.columns().end());
  CsvTable table(summary.string(), required);
  StudyPoints found{MetricsOf(table), {}};
  while (table.Next()) {
    StudyPoint& point = found.points.emplace_back();
    for (const std::string& column : study.columns())
      point.settings.emplace_back(table.Text(column));
    point.number = table.Text("point");
    point.n = table.Text("n");
    point.errors = table.Text("errors");
    point.saturated = table.Text("saturated");
    for (const std::string& metric : found.metrics) {
      point.estimates.push_back(
          {NumberOrNothing(table.Text(metric)), NumberOrNothing(table.Text(metric + "_low")),
           NumberOrNothing(table.Text(metric + "_high")), RunsWantedOf(table, metric)});
    }
  }
  return found;
}

// The last names of each path: as many as tell the columns apart.
std::vector<std::string> ShortColumns(const std::vector<std::string>& paths) {
  const auto last_names = [](const std::string& path, int count) {
    std::size_t at = path.size();
    for (; count > 0 && at != std::string::npos && at > 0; --count) at = path.rfind('.', at - 1);
    return at == std::string::npos || at == 0 ? path : path.substr(at + 1);
  };
  std::vector<std::string> names;
  for (const std::string& path : paths) {
    int count = 1;
    while (last_names(path, count) != path &&
           std::ranges::count_if(paths, [&](const std::string& other) {
             return last_names(other, count) == last_names(path, count);
           }) > 1) {
      ++count;
    }
    names.push_back(last_names(path, count));
  }
  return names;
}

// Marks the best of the points that share all values of `workload`, if intervals decide it. Values
// of saturated points depend on the length of the runs and are not compared.
void MarkBest(const Study& study, const StudyPoints& found, std::size_t metric,
              std::size_t table_column, Table& table) {
  const std::optional<bool> higher = HigherIsBetter(found.metrics[metric]);
  if (!higher) return;
  std::map<std::vector<std::string>, std::vector<std::size_t>> by_workload;
  for (std::size_t point = 0; point < found.points.size(); ++point) {
    std::vector<std::string> workload;
    for (std::size_t i = 0; i < study.columns().size(); ++i) {
      if (study.columns()[i].starts_with("workload."))
        workload.push_back(found.points[point].settings[i]);
    }
    by_workload[workload].push_back(point);
  }
  for (const auto& [workload, points] : by_workload) {
    std::vector<IntervalEstimate> estimates;
    for (const std::size_t point : points) {
      const bool saturated = found.points[point].saturated == "yes";
      estimates.push_back(saturated ? IntervalEstimate{} : found.points[point].estimates[metric]);
    }
    if (const auto best = DecidedBest(estimates, *higher))
      table.rows[points[*best]][table_column].best = true;
  }
}

Json MeanJson(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json SettingJson(const std::string& text) {
  if (const auto whole = NumberFrom<std::int64_t>(text)) return *whole;
  const std::optional<double> number = NumberFrom<double>(text);
  return number ? Json(*number) : Json(text);
}

}  // namespace

std::vector<std::string> MetricsToShow(const Study& study, std::span<const std::string> asked) {
  if (asked.empty()) return {std::begin(kMainMetrics), std::end(kMainMetrics)};
  return KnownMetrics(study.config(), asked, "--metrics");
}

Table StudyTable(const Study& study, const std::filesystem::path& summary,
                 std::span<const std::string> metrics) {
  const StudyPoints found = ReadPoints(study, summary);
  Table table{.columns = ShortColumns(study.columns()), .left = study.columns().size() + 1};
  table.columns.insert(table.columns.end(), {"saturated", "n"});
  for (const StudyPoint& point : found.points) {
    std::vector<TableCell>& row = table.rows.emplace_back();
    row.assign(point.settings.begin(), point.settings.end());
    row.emplace_back(point.saturated.empty() ? "-" : point.saturated);
    row.push_back(TableCell::Number(point.n));
  }
  for (const std::string& name : metrics) {
    const auto at = std::ranges::find(found.metrics, name);
    if (at == found.metrics.end()) continue;
    const auto metric = static_cast<std::size_t>(at - found.metrics.begin());
    const auto defined = [&](const StudyPoint& p) {
      return std::isfinite(p.estimates[metric].value);
    };
    if (std::ranges::none_of(found.points, defined)) continue;
    const std::size_t column = table.columns.size();
    table.columns.push_back(name);
    for (std::size_t point = 0; point < found.points.size(); ++point) {
      table.rows[point].push_back(
          TableCell::Number(EstimateText(found.points[point].estimates[metric])));
    }
    MarkBest(study, found, metric, column, table);
  }
  return table;
}

bool LacksRuns(const Table& table) {
  return std::ranges::any_of(table.rows, [](const std::vector<TableCell>& row) {
    return std::ranges::any_of(row,
                               [](const TableCell& cell) { return cell.text.ends_with(" runs)"); });
  });
}

void WriteStudyPoints(std::ostream& out, const Study& study, const std::filesystem::path& summary) {
  const StudyPoints found = ReadPoints(study, summary);
  Json json{{"points", Json::array()}};
  for (const StudyPoint& point : found.points) {
    Json settings = Json::object();
    for (std::size_t column = 0; column < study.columns().size(); ++column)
      settings[study.columns()[column]] = SettingJson(point.settings[column]);
    Json metrics = Json::object();
    for (std::size_t metric = 0; metric < found.metrics.size(); ++metric) {
      const IntervalEstimate& one = point.estimates[metric];
      Json& shown = metrics[found.metrics[metric]];
      shown = {
          {"mean", MeanJson(one.value)}, {"low", MeanJson(one.low)}, {"high", MeanJson(one.high)}};
      if (one.runs_wanted > 0) shown["runs_wanted"] = one.runs_wanted;
    }
    json["points"].push_back(
        {{"point", SettingJson(point.number)},
         {"settings", settings},
         {"n", SettingJson(point.n)},
         {"errors", SettingJson(point.errors)},
         {"saturated", point.saturated.empty() ? Json() : Json(point.saturated)},
         {"metrics", metrics}});
  }
  out << json.dump(2) << '\n';
}

}  // namespace twin::run
