#include "apps/run/drawn_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include <nlohmann/json.hpp>

#include "run/record/metric_table.h"

namespace twin::apps {
namespace {

using Json = nlohmann::ordered_json;

std::string Text(const run::DrawnInterval& interval) {
  return fmt::format("{:.4g} [{:.4g}, {:.4g}]", interval.median, interval.low, interval.high);
}

std::string CausesText(const run::DrawnMetric& metric) {
  std::string text;
  for (const run::VarianceShare& cause : metric.causes) {
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", cause.term, 100 * cause.share);
  }
  return text;
}

// The verdict on two experiments in one line.
std::string Verdict(const std::vector<std::string>& names, const run::DrawnMetric& metric) {
  const double second = metric.second_is_better;
  const std::string& better = names[second >= 0.5 ? 1 : 0];
  const std::string& worse = names[second >= 0.5 ? 0 : 1];
  const double share = std::max(second, 1 - second);
  if (share >= run::kDecided)
    return fmt::format("{} beats {} ({:.0f} %)", better, worse, 100 * share);
  const std::string causes = CausesText(metric);
  return fmt::format(
      "not decidable ({} is better in {:.0f} % of the draws); {}", better, 100 * share,
      causes.empty() ? "most of the spread is chance of the workload: more requests would help"
                     : "measuring would decide it, by share of the variance: " + causes);
}

Json IntervalJson(const run::DrawnInterval& interval) {
  return {{"median", interval.median}, {"low", interval.low}, {"high", interval.high}};
}

}  // namespace

void PrintDraws(std::ostream& out, const std::vector<std::string>& names,
                const run::UncertaintyComparison& comparison) {
  out << fmt::format("\n{} draws of the workload{}: median [5th, 95th percentile]\n",
                     comparison.draws,
                     comparison.has_model_errors ? " and of the cost model's errors" : "");
  std::vector<std::vector<std::string>> rows{{"metric"}};
  rows[0].insert(rows[0].end(), names.begin(), names.end());
  if (names.size() == 2) rows[0].emplace_back("difference");
  for (const run::DrawnMetric& metric : comparison.metrics) {
    rows.push_back({metric.name});
    for (const run::DrawnInterval& value : metric.values) rows.back().push_back(Text(value));
    if (names.size() == 2) rows.back().push_back(Text(metric.difference));
  }
  WriteAligned(out, rows, 1);
  out << '\n';
  if (names.size() == 2) {
    for (const run::DrawnMetric& metric : comparison.metrics) {
      out << fmt::format("{}: {}\n", metric.name, Verdict(names, metric));
    }
  } else {
    for (const run::DrawnMetric& metric : comparison.metrics) {
      if (!metric.causes.empty()) {
        out << fmt::format("{}: variance from {}\n", metric.name, CausesText(metric));
      }
    }
  }
  if (!comparison.has_model_errors) {
    out << "The cost models do not know their errors (only cost.profile does): the intervals hold "
           "the workload's chance alone.\n";
  }
}

Json DrawsJson(const run::UncertaintyComparison& comparison) {
  Json json{{"draws", comparison.draws},
            {"has_model_errors", comparison.has_model_errors},
            {"metrics", Json::array()}};
  for (const run::DrawnMetric& metric : comparison.metrics) {
    Json values = Json::array();
    for (const run::DrawnInterval& value : metric.values) values.push_back(IntervalJson(value));
    Json causes = Json::object();
    for (const run::VarianceShare& cause : metric.causes) causes[cause.term] = cause.share;
    Json one{{"name", metric.name}, {"values", values}, {"variance_shares", causes}};
    if (metric.values.size() == 2) {
      one["difference"] = IntervalJson(metric.difference);
      one["second_is_better"] = metric.second_is_better;
    }
    json["metrics"].push_back(std::move(one));
  }
  return json;
}

}  // namespace twin::apps
