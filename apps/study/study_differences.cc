#include "apps/study/study_differences.h"

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/study/metric_columns.h"
#include "apps/study/study_summary.h"
#include "core/files/csv.h"
#include "core/files/output_file.h"
#include "core/number_text.h"
#include "run/many/statistics.h"

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

void AddInterval(const Interval& interval, std::vector<std::string>& cells) {
  for (const double value : {interval.value, interval.low, interval.high})
    cells.push_back(std::isfinite(value) ? ShortestText(value) : "");
}

}  // namespace

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
