#include "apps/study/metric_columns.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>

#include "core/input_error.h"
#include "core/nearest_names.h"
#include "core/number_text.h"
#include "run/record/metric_catalog.h"

namespace twin::run {
namespace {

// Group, tenant, place in the catalogue, name.
using ColumnRank = std::tuple<int, std::uint32_t, std::size_t, std::string>;

ColumnRank RankOf(const std::string& name) {
  constexpr std::string_view kTenant = "tenant_";
  const Metric* const metric = FindMetric(name);
  const bool of_run = metric != nullptr && metric->name == name;
  if (metric == nullptr || !(of_run || name.starts_with(kTenant))) return {2, 0, 0, name};
  const auto place = static_cast<std::size_t>(metric - MetricCatalog().data());
  if (of_run) return {0, 0, place, name};
  std::uint32_t tenant = std::numeric_limits<std::uint32_t>::max();  // tenant_others
  std::from_chars(name.data() + kTenant.size(), name.data() + name.size(), tenant);
  return {1, tenant, place, name};
}

}  // namespace

void SortMetricColumns(std::vector<std::string>& names) {
  std::vector<ColumnRank> ranks;
  for (const std::string& name : names) ranks.push_back(RankOf(name));
  std::sort(ranks.begin(), ranks.end());
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = std::get<3>(ranks[i]);
}

std::span<const std::string_view> StudyMetrics() {
  static constexpr std::string_view kNames[] = {"warmup_requests", "warmup_rule"};
  return kNames;
}

bool IsRowMetric(std::string_view name) {
  return FindMetric(name) != nullptr || std::ranges::count(StudyMetrics(), name) > 0;
}

std::vector<std::string> KnownMetrics(const StudyConfig& study, std::span<const std::string> asked,
                                      const std::string& field) {
  std::vector<std::string> keys;
  std::vector<std::string_view> known;
  for (const Metric& metric : MetricCatalog()) known.push_back(metric.name);
  for (const DerivedConfig& derived : study.derived) known.push_back(derived.name);
  for (const std::string& name : asked) {
    keys.push_back(MetricKey(name));
    const bool has = (IsRowMetric(keys.back()) && !IsTextMetric(keys.back())) ||
                     std::ranges::find(known, keys.back()) != known.end();
    if (has) continue;
    throw InputError(InputError::Kind::kUsage, field + " " + name,
                     "no run has it as a number; nearest: " + NearestNames(name, known));
  }
  return keys;
}

std::string NumberCell(double value) { return std::isfinite(value) ? ShortestText(value) : ""; }

bool IsTextMetric(std::string_view name) {
  if (name == "warmup_rule") return true;
  const Metric* const metric = FindMetric(name);
  return metric != nullptr && metric->unit.empty();
}

}  // namespace twin::run
