#include "run/uncertainty_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "core/input_error.h"
#include "core/statistics.h"
#include "run/cost_cache.h"
#include "run/simulation.h"
#include "sim/devices/drawn_errors.h"

namespace twin::run {
namespace {

struct JudgedMetric {
  std::string_view name;
  bool higher_is_better;
};
constexpr std::array kJudgedMetrics = {
    JudgedMetric{"mean_ttft_ms", false},      JudgedMetric{"p99_ttft_ms", false},
    JudgedMetric{"mean_tpot_ms", false},      JudgedMetric{"p99_tpot_ms", false},
    JudgedMetric{"mean_e2el_ms", false},      JudgedMetric{"p99_e2el_ms", false},
    JudgedMetric{"request_throughput", true}, JudgedMetric{"output_throughput", true},
    JudgedMetric{"request_goodput", true}};

constexpr double kShareMin = 0.05;
// 95th percentile of the squared correlation of independent values, times the number of draws.
constexpr double kChanceTimesDraws = 3.84;

// Values of a metric, by draw.
using Draws = std::vector<double>;

DrawnInterval IntervalOf(const Draws& values) {
  return {Median(values), Quantile(values, 0.05), Quantile(values, 0.95)};
}

double SquaredCorrelation(const Draws& a, const Draws& b) {
  const double mean_a = Mean(a);
  const double mean_b = Mean(b);
  double both = 0;
  double square_a = 0;
  double square_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    both += (a[i] - mean_a) * (b[i] - mean_b);
    square_a += (a[i] - mean_a) * (a[i] - mean_a);
    square_b += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return square_a > 0 && square_b > 0 ? both * both / (square_a * square_b) : 0;
}

std::vector<VarianceShare> CausesOf(const Draws& values) {
  const std::vector<std::string_view> names = sim::ErrorNames();
  std::vector<Draws> variates(names.size());
  for (std::size_t draw = 0; draw < values.size(); ++draw) {
    const std::vector<double> errors = sim::Variates(sim::DrawErrors(draw + 1));
    for (std::size_t i = 0; i < names.size(); ++i) variates[i].push_back(errors[i]);
  }
  std::vector<VarianceShare> causes;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double share = SquaredCorrelation(values, variates[i]);
    if (share >= std::max(kShareMin, kChanceTimesDraws / static_cast<double>(values.size())))
      causes.push_back({std::string(names[i]), share});
  }
  std::ranges::sort(causes, [](const VarianceShare& a, const VarianceShare& b) {
    return a.share > b.share || (a.share == b.share && a.term < b.term);
  });
  return causes;
}

bool HasModelErrors(const ExperimentConfig& config) {
  const auto has = [](const auto& one) { return sim::TraitsOf(one.cost).is_measured; };
  return has(config) || std::ranges::any_of(config.system.groups, has);
}

// The experiment with the seed and the errors of draw number `draw`, counted from 1.
ExperimentConfig DrawnConfig(ExperimentConfig config, int draw) {
  config.seed += static_cast<std::uint64_t>(draw) - 1;
  const auto number = static_cast<std::uint64_t>(draw);
  sim::SetDraw(config.cost, number);
  for (ReplicaGroup& group : config.system.groups) sim::SetDraw(group.cost, number);
  return config;
}

DrawnMetric Judge(const JudgedMetric& judged, const std::vector<Draws>& values,
                  bool has_model_errors) {
  DrawnMetric metric;
  metric.name = judged.name;
  metric.higher_is_better = judged.higher_is_better;
  for (const Draws& draws : values) metric.values.push_back(IntervalOf(draws));
  Draws judged_values = values.front();
  if (values.size() == 2) {
    double better = 0;
    for (std::size_t i = 0; i < judged_values.size(); ++i) {
      const double difference = values[1][i] - values[0][i];
      if (difference == 0) better += 0.5;
      if (difference != 0 && (difference > 0) == judged.higher_is_better) better += 1;
      judged_values[i] = difference;
    }
    metric.difference = IntervalOf(judged_values);
    metric.second_is_better = better / static_cast<double>(judged_values.size());
  }
  if (has_model_errors) metric.causes = CausesOf(judged_values);
  return metric;
}

}  // namespace

UncertaintyComparison CompareDraws(const std::vector<ExperimentConfig>& asked, int draws,
                                   RunControl& control) {
  UncertaintyComparison comparison;
  CostCache costs;
  std::vector<ExperimentConfig> experiments;
  for (const ExperimentConfig& config : asked) {
    if (!IsSimulated(config.world)) {
      throw InputError(InputError::Kind::kUsage, config.name,
                       "does not run in a simulated world; allowed: simulated runs");
    }
    comparison.has_model_errors = comparison.has_model_errors || HasModelErrors(config);
    experiments.push_back(Resolve(config, costs).config);
  }
  // By metric, then experiment.
  std::vector<std::vector<Draws>> values(kJudgedMetrics.size(),
                                         std::vector<Draws>(experiments.size()));
  RunControl silent;
  while (comparison.draws < draws && !control.StopRequested()) {
    ++comparison.draws;
    for (std::size_t i = 0; i < experiments.size(); ++i) {
      const Deployment deployment = Resolve(DrawnConfig(experiments[i], comparison.draws), costs);
      const Summary summary = Simulate(deployment, silent).summary;
      for (std::size_t m = 0; m < kJudgedMetrics.size(); ++m) {
        const bool has = summary.Find(kJudgedMetrics[m].name) != nullptr;
        values[m][i].push_back(has ? summary.Number(kJudgedMetrics[m].name) : std::nan(""));
      }
    }
    control.OnProgress("draws", static_cast<std::uint64_t>(comparison.draws),
                       static_cast<std::uint64_t>(draws));
  }
  control.OnProgressEnd();
  if (comparison.draws < kDrawsMin) {
    throw InputError(
        InputError::Kind::kUsage, "draws",
        fmt::format("only {} were made; allowed: at least {}", comparison.draws, kDrawsMin));
  }
  for (std::size_t m = 0; m < kJudgedMetrics.size(); ++m) {
    const bool defined = std::ranges::all_of(values[m], [](const Draws& of_one) {
      return std::ranges::all_of(of_one, [](double value) { return std::isfinite(value); });
    });
    if (defined) {
      comparison.metrics.push_back(
          Judge(kJudgedMetrics[m], values[m], comparison.has_model_errors));
    }
  }
  return comparison;
}

}  // namespace twin::run
