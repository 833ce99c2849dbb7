#include "apps/study/study_summary.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/study/metric_columns.h"
#include "core/files/csv.h"
#include "core/files/output_file.h"
#include "core/number_text.h"
#include "core/statistics.h"
#include "run/many/output_statistics.h"
#include "run/many/runs_wanted.h"

namespace twin::run {
namespace {

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
    lacks_runs_.resize(metrics_.size());
  }

  [[nodiscard]] std::string Header(const std::vector<std::string>& header) const {
    std::vector<std::string> cells(header.begin(),
                                   header.begin() + static_cast<std::ptrdiff_t>(lead_));
    cells.insert(cells.end(), {"n", "errors", "saturated"});
    for (std::size_t i = 0; i < metrics_.size(); ++i) {
      const std::string& name = metrics_[i].second;
      cells.insert(cells.end(), {name, name + "_low", name + "_high"});
      if (has_own_n_[i]) cells.push_back(name + "_n");
      if (lacks_runs_[i]) cells.push_back(name + "_runs_wanted");
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

  // Notes which metrics have fewer values than the point has runs, and which want more runs than it
  // has, and starts the next point. For a first pass: these metrics get columns of their own.
  void CountValues() {
    for (std::size_t i = 0; i < metrics_.size(); ++i) {
      if (!values_[i].empty() && values_[i].size() != n_) has_own_n_[i] = true;
      if (Wanted(i) > 0) lacks_runs_[i] = true;
    }
    for (std::vector<double>& values : values_) values.clear();
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
      const std::vector<double>& values = values_[i];
      const std::size_t wanted = Wanted(i);
      if (values.empty()) {
        cells.insert(cells.end(), {"", "", ""});
      } else if (wanted > 0) {
        cells.insert(cells.end(), {NumberCell(Mean(values)), "", ""});
      } else {
        const Interval mean = MeanInterval(values, kStudyLevel, RangeOf(metrics_[i].second));
        cells.insert(cells.end(),
                     {NumberCell(mean.value), NumberCell(mean.low), NumberCell(mean.high)});
      }
      if (has_own_n_[i]) cells.push_back(std::to_string(values.size()));
      if (lacks_runs_[i]) cells.push_back(wanted > 0 ? std::to_string(wanted) : "");
    }
    for (std::vector<double>& values : values_) values.clear();
    return CsvRow(cells);
  }

 private:
  // The runs that an interval of a metric wants; 0 if there are enough, or there is no value.
  [[nodiscard]] std::size_t Wanted(std::size_t metric) const {
    if (values_[metric].empty()) return 0;
    return RunsWanted(metrics_[metric].second, [this](const std::string& name) {
      const auto found =
          std::ranges::find(metrics_, name, &std::pair<std::size_t, std::string>::second);
      const auto at = static_cast<std::size_t>(found - metrics_.begin());
      return found == metrics_.end() ? std::span<const double>()
                                     : std::span<const double>(values_[at]);
    });
  }

  const std::size_t lead_;  // columns up to the axes
  std::optional<std::size_t> saturated_column_;
  std::vector<std::pair<std::size_t, std::string>> metrics_;  // column, name
  std::vector<std::string> first_;
  std::vector<std::vector<double>> values_;  // by metric
  std::vector<bool> has_own_n_;              // by metric
  std::vector<bool> lacks_runs_;             // by metric
  std::string saturated_;
  std::size_t n_ = 0;
  std::size_t errors_ = 0;
};

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

}  // namespace twin::run
