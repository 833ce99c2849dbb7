#include "apps/validate/measured_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/random.h"
#include "core/statistics.h"

namespace twin::apps {
namespace {

constexpr double kStandardErrors = 1.96;  // of an interval of 95 %
constexpr int kResamplings = 200;
constexpr double kBlockShare = 0.05;

// Weights of one resampling of `requests` requests in blocks.
std::vector<std::uint32_t> DrawWeights(std::size_t requests, Random& random) {
  std::vector<std::uint32_t> weights(requests, 0);
  const auto share = static_cast<std::size_t>(std::llround(kBlockShare * double(requests)));
  const std::size_t block = std::max<std::size_t>(share, 1);
  for (std::size_t drawn = 0; drawn < requests;) {
    const auto last = static_cast<std::int64_t>(requests - block);
    auto at = static_cast<std::size_t>(random.UniformInt(0, last));
    for (std::size_t i = 0; i < block && drawn < requests; ++i, ++drawn) ++weights[at++];
  }
  return weights;
}

// Calls visit(weights) for each resampling, the same ones for equal numbers of requests.
template <class Visit>
void ForEachResampling(std::size_t requests, Visit visit) {
  Random random(requests, "resampling");
  for (int i = 0; i < kResamplings; ++i) visit(DrawWeights(requests, random));
}

}  // namespace

double MetricError::low_percent() const {
  return 100 * (simulated / measured * std::exp(-kStandardErrors * log_sd) - 1);
}

double MetricError::high_percent() const {
  return 100 * (simulated / measured * std::exp(kStandardErrors * log_sd) - 1);
}

ErrorVerdict MetricError::verdict() const {
  const std::string_view statistic = StatisticOf(metric);
  if (!statistic.empty() && requests < run::RequestsNeeded(statistic)) {
    return ErrorVerdict::kTooFewRequests;
  }
  if (!std::isfinite(log_sd)) return ErrorVerdict::kNoInterval;
  // Both are of the same doubles: rounding is no difference.
  constexpr double kRounding = 1e-6;
  const bool holds_zero = low_percent() <= kRounding && high_percent() >= -kRounding;
  return holds_zero ? ErrorVerdict::kAgrees : ErrorVerdict::kOff;
}

std::string MetricError::text() const {
  switch (verdict()) {
    case ErrorVerdict::kAgrees:
      return "agrees";
    case ErrorVerdict::kOff:
      return "off";
    case ErrorVerdict::kTooFewRequests:
      return fmt::format("too few requests ({} of {})", requests,
                         run::RequestsNeeded(StatisticOf(metric)));
    case ErrorVerdict::kNoInterval:
      return "no interval";
  }
  return "";
}

LogVariances ResampledVariances(const run::ClientMetrics& measured,
                                const run::ClientMetrics* simulated, std::size_t requests) {
  std::vector<run::MetricValues> ratios;
  ForEachResampling(requests, [&](const std::vector<std::uint32_t>& weights) {
    run::MetricValues ratio = measured.Values(weights);
    if (simulated != nullptr) {
      const run::MetricValues values = simulated->Values(weights);
      for (auto& [metric, value] : ratio) {
        const auto found = values.find(metric);
        value = found == values.end() ? 0 : found->second / value;
      }
    }
    ratios.push_back(std::move(ratio));
  });
  return VariancesOver(ratios);
}

LogVariances VariancesOver(const std::vector<run::MetricValues>& draws) {
  std::map<std::string, std::vector<double>> logarithms;
  for (const run::MetricValues& values : draws) {
    for (const auto& [metric, value] : values) logarithms[metric].push_back(std::log(value));
  }
  LogVariances variances;
  for (const auto& [metric, values] : logarithms) {
    const double variance = values.size() == draws.size() ? SampleVariance(values) : std::nan("");
    if (std::isfinite(variance)) variances[metric] = variance;
  }
  return variances;
}

double DifferenceSd(const run::ClientMetrics& first, const run::ClientMetrics& second,
                    std::size_t requests, const std::string& metric) {
  std::vector<double> differences;
  ForEachResampling(requests, [&](const std::vector<std::uint32_t>& weights) {
    const run::MetricValues a = first.Values(weights);
    const run::MetricValues b = second.Values(weights);
    if (a.contains(metric) && b.contains(metric)) {
      differences.push_back(a.at(metric) - b.at(metric));
    }
  });
  return std::sqrt(SampleVariance(differences));
}

std::string_view StatisticOf(std::string_view metric) {
  const std::string_view statistic = metric.substr(0, metric.find('_'));
  return std::ranges::find(run::kClientStatistics, statistic) == std::end(run::kClientStatistics)
             ? std::string_view()
             : statistic;
}

std::string_view LatencyOf(std::string_view metric) {
  const std::string_view statistic = StatisticOf(metric);
  if (statistic.empty()) return {};
  const std::string_view rest = metric.substr(statistic.size() + 1);
  return rest.substr(0, rest.find('_'));
}

std::string TitleOf(std::string_view metric) {
  if (metric == run::kThroughput) return "requests/s";
  const std::string_view latency = LatencyOf(metric);
  std::string title = latency == "e2el" ? "E2E" : std::string(latency);
  std::ranges::transform(title, title.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return fmt::format("{} {}", title, StatisticOf(metric));
}

}  // namespace twin::apps
