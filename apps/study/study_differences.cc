#include "apps/study/study_differences.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/study/metric_columns.h"
#include "apps/study/study_summary.h"
#include "core/files/csv.h"
#include "core/files/output_file.h"
#include "core/number_text.h"
#include "run/many/output_statistics.h"
#include "run/many/runs_wanted.h"

namespace twin::run {
namespace {

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

// The values of the metrics of a point's runs, by column.
using PointValues = std::vector<std::vector<double>>;

// A point and the one of the first base with the same values, run by run.
struct PointPair {
  std::size_t point = 0;
  std::size_t baseline = 0;
  PointValues values;           // of runs that both points have, by metric
  PointValues baseline_values;  // of the same runs
};

// The pairs of a study's points, in rising order.
class PairReader {
 public:
  PairReader(const std::filesystem::path& results, const Study& study)
      : results_(results), study_(study), points_(results) {
    const std::vector<std::string>& header = points_.header();
    for (std::size_t column = Lead() + 2; column + 1 < header.size(); ++column) {
      if (IsTextMetric(header[column])) continue;
      columns_.push_back(column);
      metrics_.push_back(header[column]);
    }
  }

  [[nodiscard]] const std::vector<std::string>& metrics() const { return metrics_; }

  void ForEach(const std::function<void(const PointPair&)>& use) {
    const std::size_t combinations = study_.combinations();
    std::optional<PointReader> baseline;
    for (std::size_t point = combinations; point < study_.points(); ++point) {
      const std::size_t same = point % combinations;
      if (same == 0) baseline.emplace(results_);
      use(PairOf(point, points_.Take(point, Lead()), same, baseline->Take(same, Lead())));
    }
  }

 private:
  using Rows = std::map<std::string, std::vector<std::string>>;

  [[nodiscard]] std::size_t Lead() const { return 1 + study_.columns().size(); }

  [[nodiscard]] PointPair PairOf(std::size_t point, const Rows& rows, std::size_t same,
                                 const Rows& others) const {
    PointPair pair{point, same, PointValues(columns_.size()), PointValues(columns_.size())};
    for (const auto& [replication, cells] : rows) {
      const auto other = others.find(replication);
      if (other == others.end()) continue;
      for (std::size_t i = 0; i < columns_.size(); ++i) {
        const auto value = NumberFrom<double>(cells[columns_[i]]);
        const auto other_value = NumberFrom<double>(other->second[columns_[i]]);
        if (!value || !other_value) continue;
        pair.values[i].push_back(*value);
        pair.baseline_values[i].push_back(*other_value);
      }
    }
    return pair;
  }

  const std::filesystem::path& results_;
  const Study& study_;
  PointReader points_;
  std::vector<std::size_t> columns_;  // of the metrics
  std::vector<std::string> metrics_;
};

RunValues ValuesByName(const std::vector<std::string>& metrics, const PointValues& values) {
  return [&metrics, &values](const std::string& name) -> std::span<const double> {
    const auto found = std::ranges::find(metrics, name);
    if (found == metrics.end()) return {};
    return values[static_cast<std::size_t>(found - metrics.begin())];
  };
}

// The runs that a comparison of metric `i` wants; 0 if there are enough.
std::size_t WantedOf(const std::vector<std::string>& metrics, const PointPair& pair,
                     std::size_t i) {
  return std::max(RunsWanted(metrics[i], ValuesByName(metrics, pair.values)),
                  RunsWanted(metrics[i], ValuesByName(metrics, pair.baseline_values)));
}

// p-values of the primary metrics by point and metric, adjusted for each other.
std::map<std::pair<std::size_t, std::size_t>, double> AdjustedPValues(
    const std::filesystem::path& results, const Study& study) {
  PairReader reader(results, study);
  std::vector<std::pair<std::size_t, std::size_t>> places;
  std::vector<double> p_values;
  reader.ForEach([&](const PointPair& pair) {
    for (std::size_t i = 0; i < reader.metrics().size(); ++i) {
      const std::vector<double>& values = pair.values[i];
      if (!study.IsPrimary(reader.metrics()[i]) || values == pair.baseline_values[i]) continue;
      if (WantedOf(reader.metrics(), pair, i) > 0) continue;
      std::vector<double> differences = values;
      for (std::size_t k = 0; k < values.size(); ++k) differences[k] -= pair.baseline_values[i][k];
      places.emplace_back(pair.point, i);
      p_values.push_back(MeanPValue(differences));
    }
  });
  const std::vector<double> adjusted = HolmAdjusted(p_values);
  std::map<std::pair<std::size_t, std::size_t>, double> by_place;
  for (std::size_t k = 0; k < places.size(); ++k) by_place[places[k]] = adjusted[k];
  return by_place;
}

void AddInterval(const Interval& interval, bool has_ends, std::vector<std::string>& cells) {
  cells.push_back(NumberCell(interval.value));
  for (const double end : {interval.low, interval.high}) {
    cells.push_back(has_ends ? NumberCell(end) : "");
  }
}

// A remark that the reader of the row needs; empty: none.
std::string NoteOn(const PairedComparison& paired, std::size_t wanted) {
  if (wanted > 2) return std::to_string(wanted) + " runs wanted";
  const Interval& geometric = paired.geometric_ratio;
  const bool more = paired.difference.value > 0;
  const bool otherwise = more ? geometric.high < 1 : geometric.low > 1;
  return otherwise ? "the geometric ratio points the other way" : "";
}

constexpr const char* kColumns[] = {"metric",
                                    "role",
                                    "n",
                                    "difference",
                                    "difference_low",
                                    "difference_high",
                                    "ratio",
                                    "ratio_low",
                                    "ratio_high",
                                    "geometric_ratio",
                                    "geometric_ratio_low",
                                    "geometric_ratio_high",
                                    "correlation",
                                    "p_value",
                                    "p_adjusted",
                                    "significant",
                                    "note"};

}  // namespace

void WriteStudyDifferences(const std::filesystem::path& results, const Study& study,
                           const std::filesystem::path& out) {
  const auto adjusted = AdjustedPValues(results, study);
  PairReader reader(results, study);
  OutputFile file(out);
  std::vector<std::string> header = {"point", "baseline"};
  header.insert(header.end(), study.columns().begin(), study.columns().end());
  header.insert(header.end(), std::begin(kColumns), std::end(kColumns));
  file.Write(CsvRow(header));
  reader.ForEach([&](const PointPair& pair) {
    for (std::size_t i = 0; i < reader.metrics().size(); ++i) {
      const std::vector<double>& values = pair.values[i];
      if (values.empty() || values == pair.baseline_values[i]) continue;
      const std::string& metric = reader.metrics()[i];
      const std::size_t wanted = WantedOf(reader.metrics(), pair, i);
      const PairedComparison paired = ComparePaired(values, pair.baseline_values[i], kStudyLevel);
      std::vector<std::string> cells = {std::to_string(pair.point), std::to_string(pair.baseline)};
      for (std::string& value : study.ValuesOf(pair.point)) cells.push_back(std::move(value));
      cells.insert(cells.end(), {metric, study.IsPrimary(metric) ? "primary" : "exploratory",
                                 std::to_string(values.size())});
      AddInterval(paired.difference, wanted == 0, cells);
      AddInterval(paired.ratio, wanted == 0, cells);
      AddInterval(paired.geometric_ratio, wanted == 0, cells);
      cells.push_back(NumberCell(paired.correlation));
      cells.push_back(wanted == 0 ? NumberCell(paired.p_value) : "");
      const auto found = adjusted.find({pair.point, i});
      cells.push_back(found == adjusted.end() ? "" : NumberCell(found->second));
      cells.push_back(found == adjusted.end()            ? ""
                      : found->second <= 1 - kStudyLevel ? "yes"
                                                         : "no");
      cells.push_back(NoteOn(paired, wanted));
      file.Write(CsvRow(cells));
    }
  });
  file.Commit();
}

}  // namespace twin::run
