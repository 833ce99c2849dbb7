// Metrics of one run or several, side by side, as people and scripts read them.
#pragma once

#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "run/record/summary.h"

namespace twin {

struct NamedSummary {
  std::string name;
  const Summary* summary = nullptr;  // borrowed
};

// A metric of all runs.
struct MetricRow {
  std::string name;
  std::string unit;                                   // metric_catalog.h; empty: none is known
  std::vector<const SummaryValue*> values;            // by run; nullptr: the run has no such metric
  std::vector<std::optional<double>> change_percent;  // by run: against the first run; nullopt for
                                                      // the first run, for texts, and where either
                                                      // is undefined or the first is 0
};

// The metrics of `names` that at least one run has, in the order of `names`. Borrows the summaries.
std::vector<MetricRow> MetricRows(std::span<const NamedSummary> runs,
                                  std::span<const std::string> names);

// Names of all metrics, in the order of their first appearance.
std::vector<std::string> MetricNames(std::span<const NamedSummary> runs);

// A value for people: whole counts, four significant digits of measured numbers (all digits before
// the point), "-" for an undefined value or nullptr.
std::string DisplayText(const SummaryValue* value);

// Aligned columns: metric, unit, then a column per run, and from the second run on a column with
// the change against the first.
void WriteTable(std::ostream& out, std::span<const NamedSummary> runs,
                std::span<const std::string> names);

// The table as CSV: numbers in the shortest form that reads back equal, empty cells for undefined
// numbers.
void WriteCsv(std::ostream& out, std::span<const NamedSummary> runs,
              std::span<const std::string> names);

// Rows of text in columns as wide as their widest cell: the first `left` columns are aligned to
// the left, the remaining ones to the right. REQUIRES: all rows are equally long.
void WriteAligned(std::ostream& out, const std::vector<std::vector<std::string>>& rows,
                  std::size_t left);

}  // namespace twin
