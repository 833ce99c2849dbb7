#include "run/many/runs_wanted.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "core/statistics.h"
#include "run/record/metric_catalog.h"

namespace twin::run {
namespace {

constexpr std::size_t kRunsOfWaiting = 20;
constexpr std::size_t kRunsWithoutPlaces = 10;  // that requests wait for
constexpr std::size_t kRunsOfCliff = 100;
constexpr double kFullCache = 0.95;
constexpr double kCliffSpread = 0.3;
constexpr double kCliffRatio = 2.5;

// The standard deviation of the logarithms; NaN unless all values are positive and there are two.
double Spread(std::span<const double> values) {
  std::vector<double> logarithms;
  for (const double value : values) logarithms.push_back(std::log(value));
  return std::sqrt(SampleVariance(logarithms));
}

// Whether requests of most runs waited for a place: as many ran as a limit allows, or the KV cache
// was full. So also where the runs do not say how many ran.
bool WaitsForPlaces(const RunValues& values) {
  const std::span<const double> most = values("max_running");
  if (most.empty()) return true;
  const auto at_limit = std::ranges::count(most, std::ranges::max(most));
  const auto full = std::ranges::count_if(values("max_kv_used_share"),
                                          [](double share) { return share > kFullCache; });
  return 2 * std::max(at_limit, full) > std::ssize(most);
}

// The key of the next higher quantile that a run has; empty for other statistics.
std::string NextQuantile(const std::string& key) {
  constexpr std::pair<const char*, const char*> kNext[] = {
      {"p50_", "p90_"}, {"median_", "p90_"}, {"p90_", "p99_"}, {"p95_", "p99_"}};
  for (const auto& [quantile, next] : kNext) {
    if (key.starts_with(quantile)) return next + key.substr(std::string_view(quantile).size());
  }
  return "";
}

bool LiesBelowCliff(const std::string& prefix, const std::string& key, const RunValues& values) {
  const std::string next = NextQuantile(key);
  if (next.empty()) return false;
  const double above = Spread(values(prefix + next));
  return above > kCliffSpread && above > kCliffRatio * Spread(values(prefix + key));
}

// Whether most of a latency that includes waiting is waiting: half of the mean time to the last
// token passes before the first one.
bool ConsistsOfWaiting(const std::string& prefix, const RunValues& values) {
  const std::span<const double> first = values(prefix + "mean_ttft_ms");
  const std::span<const double> last = values(prefix + "mean_e2el_ms");
  return !first.empty() && !last.empty() && Mean(first) > Mean(last) / 2;
}

bool IsWaiting(const std::string& prefix, const std::string& key, const RunValues& values) {
  for (const char* part : {"ttft", "queue", "waiting"}) {
    if (key.find(part) != std::string::npos) return true;
  }
  const bool includes =
      key.find("e2el") != std::string::npos || key.find("normalized") != std::string::npos;
  return includes && ConsistsOfWaiting(prefix, values);
}

std::size_t RunsWantedOfProportion(std::span<const double> values) {
  const auto same = static_cast<std::size_t>(
      std::max(std::ranges::count(values, 0.0), std::ranges::count(values, 1.0)));
  const bool few_differ = same < values.size() && 2 * same >= values.size();
  return few_differ && values.size() < kRunsOfWaiting ? kRunsOfWaiting : 0;
}

}  // namespace

ValueRange RangeOf(std::string_view metric) {
  const std::string_view key = WithoutPrefix(metric);
  if (key == "slo_attainment" || key == "unanswered_share") return ValueRange::kProportion;
  return FindMetric(metric) != nullptr ? ValueRange::kNonNegative : ValueRange::kAny;
}

std::size_t RunsWanted(const std::string& metric, const RunValues& values) {
  const std::span<const double> own = values(metric);
  if (own.size() < 2) return 2;
  if (FindMetric(metric) == nullptr) return 0;
  if (RangeOf(metric) == ValueRange::kProportion) return RunsWantedOfProportion(own);
  const std::string key(WithoutPrefix(metric));
  const std::string prefix = metric.substr(0, metric.size() - key.size());
  if (std::ranges::min(own) == std::ranges::max(own) || !IsWaiting(prefix, key, values)) return 0;
  const std::size_t wanted = WaitsForPlaces(values) ? kRunsOfWaiting : kRunsWithoutPlaces;
  if (own.size() < wanted) return wanted;
  if (own.size() < kRunsOfCliff && LiesBelowCliff(prefix, key, values)) return kRunsOfCliff;
  return 0;
}

}  // namespace twin::run
