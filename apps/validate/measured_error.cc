#include "apps/validate/measured_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/number_text.h"
#include "core/random.h"
#include "core/statistics.h"

namespace twin::apps {
namespace {

constexpr double kStandardErrors = 1.96;  // of an interval of 95 %
constexpr int kResamplings = 200;
constexpr double kAgreementPercent = 25;
constexpr double kBlockShare = 0.05;
constexpr std::size_t kTimeShares = 100;

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

// Requests whose last token came in each share of the time from the first sending to the last
// token; empty without these times.
std::vector<std::uint32_t> EndedByTime(std::span<const BenchmarkRequest> requests) {
  const std::optional<run::ServingTime> time = run::ServingTimeOf(requests);
  if (!time) return {};
  std::vector<std::uint32_t> ended(kTimeShares, 0);
  for (const BenchmarkRequest& request : requests) {
    if (!request.completed) continue;
    const Duration after = request.sent + *request.e2e - time->first;
    const auto share =
        static_cast<std::size_t>(kTimeShares * (Seconds(after) / Seconds(time->length())));
    ++ended[std::min(share, kTimeShares - 1)];
  }
  return ended;
}

double WeightedSum(const std::vector<std::uint32_t>& counts,
                   const std::vector<std::uint32_t>& weights) {
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) sum += double{1} * counts[i] * weights[i];
  return sum;
}

// The end of the interval that is further from 0, in percent.
double FarEnd(const MetricError& error) {
  return std::max(std::abs(error.low_percent()), std::abs(error.high_percent()));
}

}  // namespace

double MetricError::low_percent() const {
  const double most = range ? range->up_to : measured;
  return 100 * (simulated / most * std::exp(-kStandardErrors * log_sd) - 1);
}

double MetricError::high_percent() const {
  const double least = range ? range->above : measured;
  return 100 * (simulated / least * std::exp(kStandardErrors * log_sd) - 1);
}

ErrorVerdict MetricError::verdict() const {
  if (requests < run::RequestsNeeded(StatisticOf(metric))) return ErrorVerdict::kTooFewRequests;
  if (!std::isfinite(log_sd)) return ErrorVerdict::kNoInterval;
  // Both are of the same doubles: rounding is no difference.
  constexpr double kRounding = 1e-6;
  const bool holds_zero = low_percent() <= kRounding && high_percent() >= -kRounding;
  if (!holds_zero) return ErrorVerdict::kOff;
  return FarEnd(*this) <= kAgreementPercent ? ErrorVerdict::kAgrees : ErrorVerdict::kCannotTell;
}

std::string MetricError::text() const {
  switch (verdict()) {
    case ErrorVerdict::kAgrees:
      return fmt::format("agrees within {} %{}", RoundedText(FarEnd(*this), 2), RangeText());
    case ErrorVerdict::kCannotTell:
      return "cannot tell" + RangeText();
    case ErrorVerdict::kOff:
      return fmt::format("off by {}{} %{}", percent() > 0 ? "+" : "", TableNumber(percent()),
                         RangeText());
    case ErrorVerdict::kTooFewRequests:
      return fmt::format("too few requests ({} of {})", requests,
                         run::RequestsNeeded(StatisticOf(metric)));
    case ErrorVerdict::kNoInterval:
      return "no interval";
  }
  return "";
}

std::string MetricError::RangeText() const {
  if (!range) return "";
  return fmt::format(" (measured in {:.4g} to {:.4g})", range->above, range->up_to);
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

std::optional<double> ThroughputVariance(std::span<const BenchmarkRequest> measured,
                                         std::span<const BenchmarkRequest> simulated) {
  const std::vector<std::uint32_t> of_measured = EndedByTime(measured);
  const std::vector<std::uint32_t> of_simulated = EndedByTime(simulated);
  if (of_measured.empty() || (of_simulated.empty() && !simulated.empty())) return std::nullopt;
  std::vector<double> logarithms;
  ForEachResampling(kTimeShares, [&](const std::vector<std::uint32_t>& weights) {
    const double rate = WeightedSum(of_measured, weights);
    logarithms.push_back(simulated.empty() ? std::log(rate)
                                           : std::log(WeightedSum(of_simulated, weights) / rate));
  });
  const double variance = SampleVariance(logarithms);
  return std::isfinite(variance) ? std::optional(variance) : std::nullopt;
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
