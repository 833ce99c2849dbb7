#include "apps/study/study_summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/study/metric_columns.h"
#include "core/files/csv.h"
#include "core/files/output_file.h"
#include "core/number_text.h"
#include "run/many/output_statistics.h"

namespace twin::run {
namespace {

std::string NumberCell(double value) { return std::isfinite(value) ? ShortestText(value) : ""; }

// Collects the rows of one point and makes its row of the summary.
class PointSummary {
 public:
  PointSummary(const std::vector<std::string>& header, std::size_t lead) : lead_(lead) {
    for (std::size_t i = lead + 2; i + 1 < header.size(); ++i) {
      if (header[i] == "saturated") saturated_column_ = i;
      if (!IsTextMetric(header[i])) metrics_.emplace_back(i, header[i]);
    }
    values_.resize(metrics_.size());
    has_own_n_.resize(metrics_.size());
  }

  [[nodiscard]] std::string Header(const std::vector<std::string>& header) const {
    std::vector<std::string> cells(header.begin(),
                                   header.begin() + static_cast<std::ptrdiff_t>(lead_));
    cells.insert(cells.end(), {"n", "errors", "saturated"});
    for (std::size_t i = 0; i < metrics_.size(); ++i) {
      const std::string& name = metrics_[i].second;
      cells.insert(cells.end(), {name, name + "_low", name + "_high"});
      if (has_own_n_[i]) cells.push_back(name + "_n");
    }
    return CsvRow(cells);
  }

  [[nodiscard]] bool Continues(const std::vector<std::string_view>& cells) const {
    return !first_.empty() && first_.front() == cells.front();
  }

  void Add(const std::vector<std::string_view>& cells) {
    if (first_.empty()) first_.assign(cells.begin(), cells.begin() + static_cast<long>(lead_));
    if (!cells.back().empty()) {
      ++errors_;
      return;
    }
    ++n_;
    if (saturated_column_) {
      const std::string_view verdict = cells[*saturated_column_];
      if (saturated_.empty()) saturated_ = verdict;
      if (saturated_ != verdict) saturated_ = "undecided";
    }
    for (std::size_t i = 0; i < metrics_.size(); ++i) {
      const auto value = NumberFrom<double>(cells[metrics_[i].first]);
      if (value) values_[i].push_back(*value);
    }
  }

  // Notes which metrics have fewer values than the point has runs, and starts the next point. For a
  // first pass: these metrics get a column of their own for n.
  void CountValues() {
    for (std::size_t i = 0; i < metrics_.size(); ++i) {
      if (!values_[i].empty() && values_[i].size() != n_) has_own_n_[i] = true;
      values_[i].clear();
    }
    first_.clear();
    saturated_.clear();
    n_ = 0;
    errors_ = 0;
  }

  // The point's row; empty if there is none. Starts the next point.
  std::string Take() {
    if (first_.empty()) return "";
    std::vector<std::string> cells = std::exchange(first_, {});
    cells.insert(cells.end(),
                 {std::to_string(std::exchange(n_, 0)), std::to_string(std::exchange(errors_, 0)),
                  std::exchange(saturated_, "")});
    for (std::size_t i = 0; i < metrics_.size(); ++i) {
      std::vector<double>& values = values_[i];
      if (values.empty()) {
        cells.insert(cells.end(), {"", "", ""});
      } else {
        const Interval mean = MeanInterval(values, kStudyLevel);
        cells.insert(cells.end(),
                     {NumberCell(mean.value), NumberCell(mean.low), NumberCell(mean.high)});
      }
      if (has_own_n_[i]) cells.push_back(std::to_string(values.size()));
      values.clear();
    }
    return CsvRow(cells);
  }

 private:
  const std::size_t lead_;  // columns up to the axes
  std::optional<std::size_t> saturated_column_;
  std::vector<std::pair<std::size_t, std::string>> metrics_;  // column, name
  std::vector<std::string> first_;
  std::vector<std::vector<double>> values_;  // by metric
  std::vector<bool> has_own_n_;              // likewise
  std::string saturated_;
  std::size_t n_ = 0;
  std::size_t errors_ = 0;
};

constexpr std::size_t kNoPoint = ~std::size_t{0};

// The rows of a finished results.csv, a point at a time.
class PointReader {
 public:
  explicit PointReader(const std::filesystem::path& results) : table_(results.string()) { Next(); }

  [[nodiscard]] const std::vector<std::string>& header() const { return table_.columns(); }

  // The rows of the point without errors, by replication; points before it are passed over.
  std::map<std::string, std::vector<std::string>> Take(std::size_t point,
                                                       std::size_t replication_column) {
    while (point_ < point) Next();
    std::map<std::string, std::vector<std::string>> rows;
    for (; point_ == point; Next()) {
      const std::vector<std::string_view>& cells = table_.cells();
      if (cells.back().empty())
        rows[std::string(cells[replication_column])].assign(cells.begin(), cells.end());
    }
    return rows;
  }

 private:
  void Next() {
    point_ = table_.Next() ? NumberFrom<std::size_t>(table_.cells().front()).value_or(kNoPoint)
                           : kNoPoint;
  }

  CsvTable table_;
  std::size_t point_ = kNoPoint;
};

void AddInterval(const Interval& interval, std::vector<std::string>& cells) {
  for (const double value : {interval.value, interval.low, interval.high})
    cells.push_back(std::isfinite(value) ? ShortestText(value) : "");
}

}  // namespace

void WriteStudySummary(const std::filesystem::path& results, const Study& study,
                       const std::filesystem::path& out) {
  CsvTable counted(results.string());
  PointSummary point(counted.columns(), 1 + study.columns().size());
  while (counted.Next()) {
    if (!point.Continues(counted.cells())) point.CountValues();
    point.Add(counted.cells());
  }
  point.CountValues();
  OutputFile file(out);
  file.Write(point.Header(counted.columns()));
  CsvTable table(results.string());
  while (table.Next()) {
    if (!point.Continues(table.cells())) file.Write(point.Take());
    point.Add(table.cells());
  }
  file.Write(point.Take());
  file.Commit();
}

void WriteStudyDifferences(const std::filesystem::path& results, const Study& study,
                           const std::filesystem::path& out) {
  const std::size_t bases = study.config().bases.size();
  const std::size_t combinations = study.combinations();
  const double level = 1 - (1 - kStudyLevel) / static_cast<double>(bases - 1);
  const std::size_t lead = 1 + study.columns().size();
  OutputFile file(out);
  std::vector<std::string> header = {"point", "baseline"};
  header.insert(header.end(), study.columns().begin(), study.columns().end());
  header.insert(header.end(), {"metric", "n", "difference", "difference_low", "difference_high",
                               "ratio", "ratio_low", "ratio_high", "correlation"});
  file.Write(CsvRow(header));
  PointReader points(results);
  std::optional<PointReader> baseline;
  for (std::size_t point = combinations; point < study.points(); ++point) {
    const std::size_t same = point % combinations;
    if (same == 0) baseline.emplace(results);
    const auto rows = points.Take(point, lead);
    const auto others = baseline->Take(same, lead);
    for (std::size_t column = lead + 2; column + 1 < points.header().size(); ++column) {
      if (IsTextMetric(points.header()[column])) continue;
      std::vector<double> values;
      std::vector<double> other_values;
      for (const auto& [replication, cells] : rows) {
        const auto other = others.find(replication);
        if (other == others.end()) continue;
        const auto value = NumberFrom<double>(cells[column]);
        const auto other_value = NumberFrom<double>(other->second[column]);
        if (!value || !other_value) continue;
        values.push_back(*value);
        other_values.push_back(*other_value);
      }
      if (values.empty() || values == other_values) continue;
      const PairedComparison paired = ComparePaired(values, other_values, level);
      std::vector<std::string> cells = {std::to_string(point), std::to_string(same)};
      for (std::string& value : study.ValuesOf(point)) cells.push_back(std::move(value));
      cells.insert(cells.end(), {points.header()[column], std::to_string(values.size())});
      AddInterval(paired.difference, cells);
      AddInterval(paired.ratio, cells);
      cells.push_back(std::isfinite(paired.correlation) ? ShortestText(paired.correlation) : "");
      file.Write(CsvRow(cells));
    }
  }
  file.Commit();
}

}  // namespace twin::run
