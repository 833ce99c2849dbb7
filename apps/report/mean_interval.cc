#include "apps/report/mean_interval.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "config/experiment_config.h"
#include "core/input_error.h"
#include "core/statistics.h"
#include "run/many/batch_means.h"
#include "run/record/metric_table.h"

namespace twin::run {
namespace {

constexpr double kLevel = 0.95;
constexpr double kFactor = 500;
constexpr double kFactorWithHeadroom = 80;
constexpr double kRequestsMin = 500;
constexpr double kHeadroom = 1.0 / 3;  // of a limit, used at most
constexpr double kWaitingMax = 0.1;    // of the running requests
constexpr double kDispersionMax = 2;   // 1: Poisson

// The columns of requests.csv whose means have an interval.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kMeans = {
    {{"mean_ttft_ms", "ttft_ms"},
     {"mean_tpot_ms", "tpot_ms"},
     {"mean_e2el_ms", "e2el_ms"},
     {"mean_queue_ms", "queue_ms"}}};

// The values of completed requests in the order of arrival.
std::vector<double> ByArrival(const CsvFile& requests, std::string_view column) {
  const std::vector<double> arrivals = requests.Times("arrival_s");
  const std::vector<double> values = requests.Numbers(column);
  const std::vector<double> ends = requests.Numbers("e2el_ms");
  std::vector<std::size_t> order(arrivals.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return arrivals[i]; });
  std::vector<double> sorted;
  for (const std::size_t i : order) {
    if (std::isfinite(values[i]) && std::isfinite(ends[i])) sorted.push_back(values[i]);
  }
  return sorted;
}

struct OfferedLoad {
  double in_system = 0;  // mean number of requests, infinite if all arrive at once
  // Variance by mean of the arrivals in spans of the mean time in the system.
  double dispersion = std::numeric_limits<double>::infinity();
};

// By Little's law. REQUIRES: has_arrivals().
OfferedLoad LoadOf(const CsvFile& requests) {
  const std::vector<double> arrivals = requests.Times("arrival_s");
  const std::vector<double> times_ms = ByArrival(requests, "e2el_ms");
  if (times_ms.empty()) return {};
  const auto [first, last] = std::ranges::minmax_element(arrivals);
  const double sum = 1e-3 * std::accumulate(times_ms.begin(), times_ms.end(), 0.0);
  OfferedLoad load;
  load.in_system = sum / (*last - *first);
  const double answered = static_cast<double>(times_ms.size());
  // Longer spans do for arrivals so rare that few of the spans hold any.
  const double spans = std::floor(std::min(answered / load.in_system, answered));
  if (!(spans >= 2)) return load;
  std::vector<double> counts(static_cast<std::size_t>(spans));
  for (const double arrival : arrivals) {
    const auto at = static_cast<std::size_t>((arrival - *first) / (*last - *first) * spans);
    ++counts[std::min(at, counts.size() - 1)];
  }
  load.dispersion = SampleVariance(counts) / Mean(counts);
  return load;
}

// The configuration of a run of this program; nullopt if it cannot be read here, as where a file
// that it names is elsewhere.
std::optional<ExperimentConfig> ConfigOf(const ReportedRun& run) {
  if (run.config.empty()) return std::nullopt;
  try {
    return ParseExperiment(run.config, run.path.string(), run.path);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

double NumberOrNothing(const Summary& summary, std::string_view name) {
  const SummaryValue* const value = summary.Find(name);
  const bool is_number = value != nullptr && !std::holds_alternative<std::string>(*value);
  return is_number ? summary.Number(name) : std::numeric_limits<double>::quiet_NaN();
}

// Two digits, rounded up.
std::string RoundedUp(double requests) {
  const double unit = std::pow(10, std::floor(std::log10(requests)) - 1);
  return fmt::format("{:.0f}", std::ceil(requests / unit) * unit);
}

}  // namespace

MeanIntervals::MeanIntervals(const ReportedRun& run) : run_(run) {
  if (!run.has_arrivals() || !run.requests->Has("e2el_ms")) return;
  const OfferedLoad load = LoadOf(*run.requests);
  const double factor = LittleQueues(load.dispersion) ? kFactorWithHeadroom : kFactor;
  requests_needed_ = std::max(kRequestsMin, factor * load.in_system);
}

bool MeanIntervals::LittleQueues(double dispersion) const {
  const std::optional<ExperimentConfig> config = ConfigOf(run_);
  if (!config) return false;
  if (config->workload.arrivals.users > 0) return true;
  // Several limits, or one that only the policy knows.
  if (config->system.disaggregation || !config->system.groups.empty()) return false;
  if (config->policy_file || !OwnPolicyOf(run_.config).empty()) return false;
  const double limit =
      double{1} * TraitsOf(*config).sequences_per_step_max * config->system.replicas;
  const double running = NumberOrNothing(run_.summary, "mean_running");
  const double waiting = NumberOrNothing(run_.summary, "mean_waiting");
  const double cache = NumberOrNothing(run_.summary, "mean_kv_used_share");
  return (limit == 0 || running <= kHeadroom * limit) && waiting <= kWaitingMax * running &&
         cache <= kHeadroom && dispersion <= kDispersionMax;
}

std::string MeanIntervals::TextOf(std::string_view metric) const {
  const auto* const found =
      std::ranges::find(kMeans, metric, [](const auto& m) { return m.first; });
  if (found == kMeans.end() || requests_needed_ == 0) return "";
  if (!run_.requests->Has(found->second)) return "";
  if (!std::isfinite(requests_needed_)) return " (no interval: all requests came at once)";
  const SummaryValue* const saturated = run_.summary.Find("saturated");
  if (saturated != nullptr && *saturated == SummaryValue("yes")) return " (no interval: saturated)";
  const std::vector<double> values = ByArrival(*run_.requests, found->second);
  if (values.empty()) return "";
  if (static_cast<double>(values.size()) < requests_needed_) {
    return fmt::format(" (no interval: {} requests would do)", RoundedUp(requests_needed_));
  }
  const Interval mean = MeanByBatches(values, kLevel);
  return fmt::format(" [{}, {}]", NumberText(mean.low), NumberText(mean.high));
}

}  // namespace twin::run
