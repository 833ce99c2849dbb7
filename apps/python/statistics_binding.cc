#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "apps/python/bindings.h"
#include "core/input_error.h"
#include "core/statistics.h"
#include "run/many/output_statistics.h"
#include "run/many/runs_wanted.h"

namespace twin::python {
namespace {

namespace nb = nanobind;

// Values of runs, by metric.
using Columns = std::map<std::string, std::vector<double>>;

run::RunValues ValuesOf(const Columns& columns) {
  return [&columns](const std::string& name) -> std::span<const double> {
    const auto found = columns.find(name);
    return found == columns.end() ? std::span<const double>() : found->second;
  };
}

const std::vector<double>& ColumnOf(const Columns& columns, const std::string& metric) {
  const auto found = columns.find(metric);
  if (found == columns.end() || found->second.empty()) {
    throw InputError(InputError::Kind::kUsage, metric, "the runs have no number of it");
  }
  return found->second;
}

void Add(nb::dict& row, const std::string& name, const run::Interval& interval, bool has_ends) {
  row[name.c_str()] = interval.value;
  row[(name + "_low").c_str()] = has_ends ? interval.low : std::nan("");
  row[(name + "_high").c_str()] = has_ends ? interval.high : std::nan("");
}

nb::dict MetricInterval(const std::string& metric, const Columns& runs, double confidence) {
  const std::vector<double>& values = ColumnOf(runs, metric);
  const std::size_t wanted = run::RunsWanted(metric, ValuesOf(runs));
  const run::Interval mean = run::MeanInterval(values, confidence, run::RangeOf(metric));
  nb::dict row;
  row["n"] = values.size();
  Add(row, "mean", mean, wanted == 0);
  row["runs_wanted"] = wanted;
  return row;
}

nb::dict PairedDifference(const std::string& metric, const Columns& runs, const Columns& baseline,
                          double confidence) {
  const std::vector<double>& values = ColumnOf(runs, metric);
  const std::vector<double>& others = ColumnOf(baseline, metric);
  if (values.size() != others.size()) {
    throw InputError(InputError::Kind::kUsage, metric,
                     "the two have different numbers of runs; allowed: runs with equal seeds");
  }
  const std::size_t wanted = std::max(run::RunsWanted(metric, ValuesOf(runs)),
                                      run::RunsWanted(metric, ValuesOf(baseline)));
  const run::PairedComparison paired = run::ComparePaired(values, others, confidence);
  nb::dict row;
  row["n"] = values.size();
  Add(row, "difference", paired.difference, wanted == 0);
  Add(row, "ratio", paired.ratio, wanted == 0);
  Add(row, "geometric_ratio", paired.geometric_ratio, wanted == 0);
  row["correlation"] = paired.correlation;
  row["p_value"] = wanted == 0 ? paired.p_value : std::nan("");
  row["runs_wanted"] = wanted;
  return row;
}

}  // namespace

void BindStatistics(nb::module_& module) {
  module.def("metric_interval", &MetricInterval, nb::arg("metric"), nb::arg("runs"),
             nb::arg("confidence"));
  module.def("paired_difference", &PairedDifference, nb::arg("metric"), nb::arg("runs"),
             nb::arg("baseline"), nb::arg("confidence"));
}

}  // namespace twin::python
