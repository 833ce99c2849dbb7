#include "run/record/metric_table.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <set>
#include <variant>

#include "core/csv.h"
#include "core/number_text.h"
#include "run/record/metric_catalog.h"

namespace twin {
namespace {

std::optional<double> NumberOf(const SummaryValue* value) {
  if (value == nullptr) return std::nullopt;
  if (const auto* count = std::get_if<std::int64_t>(value)) return static_cast<double>(*count);
  const auto* number = std::get_if<double>(value);
  if (number == nullptr || !std::isfinite(*number)) return std::nullopt;
  return *number;
}

std::optional<double> ChangePercent(const SummaryValue* first, const SummaryValue* other) {
  const std::optional<double> from = NumberOf(first);
  const std::optional<double> to = NumberOf(other);
  if (!from || !to || *from == 0) return std::nullopt;
  return 100 * (*to - *from) / std::abs(*from);
}

std::string ChangeText(const std::optional<double>& percent) {
  if (!percent) return "-";
  if (std::abs(*percent) < 0.05) return "+0.0%";  // without the sign of what was rounded
  return std::abs(*percent) < 999.95 ? fmt::format("{:+.1f}%", *percent)
                                     : fmt::format("{:+.0f}%", *percent);
}

std::string ExactText(const SummaryValue* value) {
  if (value == nullptr) return "";
  if (const auto* text = std::get_if<std::string>(value)) return *text;
  if (const auto* count = std::get_if<std::int64_t>(value)) return fmt::format("{}", *count);
  const double number = std::get<double>(*value);
  return std::isfinite(number) ? ShortestText(number) : "";
}

}  // namespace

std::vector<MetricRow> MetricRows(std::span<const NamedSummary> runs,
                                  std::span<const std::string> names) {
  std::vector<MetricRow> rows;
  for (const std::string& name : names) {
    MetricRow row;
    row.name = name;
    bool known = false;
    for (const NamedSummary& run : runs) {
      row.values.push_back(run.summary->Find(name));
      known = known || row.values.back() != nullptr;
      row.change_percent.push_back(row.values.size() == 1
                                       ? std::nullopt
                                       : ChangePercent(row.values.front(), row.values.back()));
    }
    if (!known) continue;
    if (const Metric* const metric = FindMetric(name)) row.unit = metric->unit;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::string> MetricNames(std::span<const NamedSummary> runs) {
  std::vector<std::string> names;
  std::set<std::string_view> seen;
  for (const NamedSummary& run : runs) {
    for (const SummaryEntry& entry : run.summary->entries()) {
      if (seen.insert(entry.name).second) names.push_back(entry.name);
    }
  }
  return names;
}

std::string DisplayText(const SummaryValue* value) {
  if (value == nullptr) return "-";
  if (const auto* text = std::get_if<std::string>(value)) return *text;
  if (const auto* count = std::get_if<std::int64_t>(value)) return fmt::format("{}", *count);
  return NumberText(std::get<double>(*value));
}

Table MetricTable(std::span<const NamedSummary> runs, std::span<const std::string> names) {
  Table table{.columns = {"metric", "unit"}, .left = 2};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    table.columns.push_back(runs[i].name);
    if (i > 0) table.columns.emplace_back("change");
  }
  for (const MetricRow& row : MetricRows(runs, names)) {
    std::vector<TableCell>& line = table.rows.emplace_back();
    line = {row.name, row.unit};
    for (std::size_t i = 0; i < row.values.size(); ++i) {
      const SummaryValue* const value = row.values[i];
      const bool is_text = value != nullptr && std::holds_alternative<std::string>(*value);
      line.push_back(is_text ? TableCell(DisplayText(value))
                             : TableCell::Number(DisplayText(value)));
      if (i > 0) line.push_back(TableCell::Number(ChangeText(row.change_percent[i])));
    }
  }
  return table;
}

void WriteCsv(std::ostream& out, std::span<const NamedSummary> runs,
              std::span<const std::string> names) {
  CsvLine line;
  line.Word("metric").Word("unit");
  for (std::size_t i = 0; i < runs.size(); ++i) {
    line.Word(runs[i].name);
    if (i > 0) line.Word(runs[i].name + "_change_percent");
  }
  line.WriteTo(out);
  for (const MetricRow& row : MetricRows(runs, names)) {
    line.Word(row.name).Word(row.unit);
    for (std::size_t i = 0; i < row.values.size(); ++i) {
      line.Word(ExactText(row.values[i]));
      if (i == 0) continue;
      line.Word(row.change_percent[i] ? RoundedText(*row.change_percent[i], 6) : "");
    }
    line.WriteTo(out);
  }
}

}  // namespace twin
