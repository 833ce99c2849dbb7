#include "apps/recommend/recommendation_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <ostream>
#include <set>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/number_text.h"
#include "run/record/table.h"

namespace twin::run {
namespace {

constexpr std::size_t kRowsMax = 15;  // of a table
constexpr std::size_t kGap = 2;       // between columns, as WriteAligned() has it

using Rows = std::vector<std::vector<std::string>>;

struct Column {
  std::string name;
  std::vector<std::string> cells;  // by row
  bool is_number = false;          // aligned to the right
};

std::string CellText(const Parameter& parameter) {
  return std::visit(
      [](const auto& value) -> std::string {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, double>) {
          return RoundedText(value, 4);
        } else {
          return fmt::format("{}", value);
        }
      },
      parameter.second);
}

// A column for every setting that any configuration has, in the order of ParametersOf; "-" where a
// configuration's server does not have the setting.
std::vector<Column> SettingsOf(const Recommendation& answer, const RecommendConfig& request) {
  std::vector<Column> columns;
  const std::size_t count = answer.configurations.size();
  for (std::size_t i = 0; i < count; ++i) {
    const CandidateSettings& choice = answer.configurations[i].candidate.choice;
    for (const Parameter& parameter : ParametersOf(request, choice)) {
      auto column = std::ranges::find(columns, parameter.first, &Column::name);
      if (column == columns.end()) {
        columns.push_back({parameter.first, std::vector<std::string>(count, "-")});
        column = std::prev(columns.end());
      }
      column->cells[i] = CellText(parameter);
    }
  }
  return columns;
}

// Takes out the columns with one value, and writes each as a line.
void WriteShared(std::ostream& out, std::vector<Column>& columns) {
  std::erase_if(columns, [&out](const Column& column) {
    const bool shared =
        std::ranges::count(column.cells, column.cells[0]) == std::ssize(column.cells);
    const bool has_setting = column.cells[0] != "-";
    if (shared && has_setting) out << fmt::format("{}: {}\n", column.name, column.cells[0]);
    return shared;
  });
}

// The parts of a name at which it may be broken: "mean_", "ttft_", "ms", "<=500".
std::vector<std::string> PartsOf(const std::string& name) {
  std::vector<std::string> parts(1);
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool begins = name[i] == '<' || name[i] == '>';
    if (begins && !parts.back().empty()) parts.emplace_back();
    parts.back() += name[i];
    if ((name[i] == '_' || name[i] == ' ') && i + 1 < name.size()) parts.emplace_back();
  }
  return parts;
}

// As narrow as its name can be broken, or with the name in one line.
std::size_t WidthOf(const Column& column, bool breaks) {
  std::size_t width = breaks ? 0 : column.name.size();
  for (const std::string& part : PartsOf(column.name)) width = std::max(width, part.size());
  for (const std::string& cell : column.cells) width = std::max(width, cell.size());
  return width;
}

std::size_t WidthOf(const std::vector<Column>& columns, bool breaks) {
  std::size_t width = 0;
  for (const Column& column : columns) width += (width > 0 ? kGap : 0) + WidthOf(column, breaks);
  return width;
}

std::vector<std::string> Broken(const std::string& name, std::size_t width) {
  std::vector<std::string> lines(1);
  for (const std::string& part : PartsOf(name)) {
    if (lines.back().size() + part.size() > width && !lines.back().empty()) lines.emplace_back();
    lines.back() += part;
  }
  for (std::string& line : lines) line.erase(line.find_last_not_of(' ') + 1);
  return lines;
}

void WriteColumns(std::ostream& out, const std::vector<Column>& columns) {
  const bool breaks = WidthOf(columns, false) > kTableWidthMax;
  std::vector<std::vector<std::string>> names;
  std::size_t height = 0;
  for (const Column& column : columns) {
    names.push_back(Broken(column.name, WidthOf(column, breaks)));
    height = std::max(height, names.back().size());
  }
  Rows rows(height + columns[0].cells.size());
  std::size_t left = 0;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (!columns[c].is_number) left = c + 1;
    names[c].insert(names[c].begin(), height - names[c].size(), "");
    for (std::size_t i = 0; i < height; ++i) rows[i].push_back(names[c][i]);
    for (std::size_t i = 0; i < columns[c].cells.size(); ++i)
      rows[height + i].push_back(columns[c].cells[i]);
  }
  out << '\n';
  WriteAligned(out, rows, left);
}

// One table if its lines are short enough; otherwise further ones for the columns that did not fit.
void WriteTables(std::ostream& out, const std::vector<Column>& lead, std::vector<Column> settings,
                 std::vector<Column> results) {
  std::vector<Column> taken = lead;
  while (!settings.empty() || !results.empty()) {
    // At least one column, however wide.
    bool is_first = true;
    const auto fits = [&](const Column& column) {
      std::vector<Column> more = taken;
      more.push_back(column);
      return std::exchange(is_first, false) || WidthOf(more, true) <= kTableWidthMax;
    };
    std::vector<Column> table_settings;
    std::vector<Column> table_results;
    const auto take = [&](std::vector<Column>& from, std::vector<Column>& to) {
      while (!from.empty() && fits(from.front())) {
        taken.push_back(from.front());
        to.push_back(std::move(from.front()));
        from.erase(from.begin());
      }
    };
    take(results, table_results);
    take(settings, table_settings);
    taken.resize(taken.size() - table_settings.size() - table_results.size());
    std::ranges::move(table_settings, std::back_inserter(taken));
    std::ranges::move(table_results, std::back_inserter(taken));
    WriteColumns(out, taken);
    taken = {lead[0]};  // the rank
  }
}

// The first configuration of each result among `indices`. Settings that do not bind have results
// that are equal to the last digit.
std::vector<std::size_t> DistinctResults(const std::vector<RecommendedConfiguration>& all,
                                         const std::vector<std::size_t>& indices) {
  std::vector<std::size_t> distinct;
  std::set<std::vector<double>> seen;
  for (const std::size_t i : indices) {
    std::vector<double> result = {all[i].value.value};
    for (const BoundMargin& margin : all[i].margins) result.push_back(margin.metric.value);
    if (seen.insert(std::move(result)).second) distinct.push_back(i);
  }
  return distinct;
}

std::vector<Column> ResultsOf(const Recommendation& answer, const std::vector<std::size_t>& rows) {
  const auto& all = answer.configurations;
  std::vector<Column> results = {{answer.objective == answer.value_unit
                                      ? answer.objective
                                      : fmt::format("{} ({})", answer.objective, answer.value_unit),
                                  {},
                                  true}};
  for (const std::size_t i : rows) results[0].cells.push_back(IntervalText(all[i].value));
  for (std::size_t b = 0; b < all[0].margins.size(); ++b) {
    Column column{all[0].margins[b].bound, {}, true};
    for (const std::size_t i : rows)
      column.cells.push_back(DefinedText(all[i].margins[b].metric.value));
    results.push_back(std::move(column));
  }
  return results;
}

// A table of some configurations. `settings` has a cell for each configuration of the answer.
void WriteGroup(std::ostream& out, const Recommendation& answer,
                const std::vector<std::size_t>& group, const std::vector<Column>& settings) {
  const std::vector<std::size_t> distinct = DistinctResults(answer.configurations, group);
  const std::vector<std::size_t> rows(
      distinct.begin(),
      distinct.begin() + static_cast<std::ptrdiff_t>(std::min(distinct.size(), kRowsMax)));
  std::vector<Column> columns;
  for (const Column& column : settings) {
    columns.push_back({column.name, {}});
    for (const std::size_t i : rows) columns.back().cells.push_back(column.cells[i]);
  }
  WriteShared(out, columns);
  std::vector<Column> lead = {{"rank", {}}, {"tied", {}}};
  for (const std::size_t i : rows) {
    lead[0].cells.push_back(std::to_string(answer.configurations[i].rank));
    lead[1].cells.emplace_back(answer.configurations[i].tied ? "yes" : "no");
  }
  WriteTables(out, lead, std::move(columns), ResultsOf(answer, rows));
  if (distinct.size() > rows.size())
    out << fmt::format("... and {} more (--format json)\n", distinct.size() - rows.size());
  if (distinct.size() < group.size())
    out << fmt::format("{} further settings have the result of one of these rows\n",
                       group.size() - distinct.size());
}

}  // namespace

std::string DefinedText(double value) { return std::isfinite(value) ? RoundedText(value, 4) : "-"; }

std::string IntervalText(const Interval& interval) {
  return fmt::format("{} [{}, {}]", DefinedText(interval.value), DefinedText(interval.low),
                     DefinedText(interval.high));
}

void WriteConfigurations(std::ostream& out, const Recommendation& answer,
                         const RecommendConfig& request) {
  std::vector<std::size_t> own;
  std::vector<std::size_t> quantised;
  for (std::size_t i = 0; i < answer.configurations.size(); ++i) {
    (answer.configurations[i].candidate.quantised ? quantised : own).push_back(i);
  }
  std::vector<Column> settings = SettingsOf(answer, request);
  WriteShared(out, settings);
  if (!own.empty()) {
    if (!quantised.empty()) out << "\nwith the weights of the checkpoint\n";
    WriteGroup(out, answer, own, settings);
  }
  if (quantised.empty()) return;
  out << "\nwith quantised weights (another checkpoint, or converted as the server loads it)\n";
  WriteGroup(out, answer, quantised, settings);
}

}  // namespace twin::run
