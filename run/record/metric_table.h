// Metrics of one run or several, side by side, as people and scripts read them.
#pragma once

#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "run/record/summary.h"
#include "run/record/table.h"

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

// A value for people: whole counts, NumberText of measured numbers, "-" for an undefined value or
// nullptr.
std::string DisplayText(const SummaryValue* value);

// Columns: metric, unit, then one per run, and from the second run on one with the change against
// the first.
Table MetricTable(std::span<const NamedSummary> runs, std::span<const std::string> names);

// The table as CSV: numbers in the shortest form that reads back equal, empty cells for undefined
// numbers.
void WriteCsv(std::ostream& out, std::span<const NamedSummary> runs,
              std::span<const std::string> names);

}  // namespace twin
