#include "run/uncertainty_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

#include <boost/math/special_functions/beta.hpp>

#include "core/check.h"
#include "core/input_error.h"
#include "core/seed_range.h"
#include "core/statistics.h"
#include "run/cost_cache.h"
#include "run/many/parallel_runs.h"
#include "run/record/metric_catalog.h"
#include "run/simulation.h"
#include "sim/devices/drawn_errors.h"

namespace twin::run {
namespace {

constexpr std::array<std::string_view, 9> kJudgedMetrics = {
    "mean_ttft_ms", "p99_ttft_ms",    "mean_tpot_ms",      "p99_tpot_ms", "mean_e2el_ms",
    "p99_e2el_ms",  "completed_rate", "output_token_rate", "good_rate"};

constexpr double kShareMin = 0.05;
// 95th percentile of the squared correlation of independent values, times the number of draws.
constexpr double kChanceTimesDraws = 3.84;

// Values of a metric, by draw.
using Draws = std::vector<double>;
// By metric, then experiment.
using MetricDraws = std::vector<std::vector<Draws>>;

DrawnInterval IntervalOf(const Draws& values) {
  const PredictionInterval interval = PredictionIntervalOf(values);
  return {Median(values), interval.low, interval.high};
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

// The experiment, which has the first seed, with the seed and the errors of draw number `draw`,
// counted from 1.
ExperimentConfig DrawnConfig(ExperimentConfig config, std::uint64_t draw) {
  config.seed += draw - 1;
  sim::SetDraw(config.cost, draw);
  for (ReplicaGroup& group : config.system.groups) sim::SetDraw(group.cost, draw);
  return config;
}

DrawnMetric Judge(std::string_view name, const std::vector<Draws>& values, bool has_model_errors) {
  DrawnMetric metric;
  metric.name = name;
  metric.higher_is_better = HigherIsBetter(name).value();
  for (const Draws& draws : values) metric.values.push_back(IntervalOf(draws));
  Draws judged_values = values.front();
  if (values.size() == 2) {
    double better = 0;
    for (std::size_t i = 0; i < judged_values.size(); ++i) {
      const double difference = values[1][i] - values[0][i];
      if (difference == 0) better += 0.5;
      if (difference != 0 && (difference > 0) == metric.higher_is_better) better += 1;
      judged_values[i] = difference;
    }
    metric.difference = IntervalOf(judged_values);
    metric.second_is_better = ProbabilityOf(better, static_cast<int>(judged_values.size()));
  }
  if (has_model_errors) metric.causes = CausesOf(judged_values);
  return metric;
}

// Adds the metrics that are defined in all draws that were made, which are the first ones.
void AddMetrics(MetricDraws& values, UncertaintyComparison& comparison) {
  for (std::size_t m = 0; m < values.size(); ++m) {
    for (Draws& draws : values[m]) draws.resize(static_cast<std::size_t>(comparison.draws));
    const bool defined = std::ranges::all_of(values[m], [](const Draws& of_one) {
      return std::ranges::all_of(of_one, [](double value) { return std::isfinite(value); });
    });
    if (defined) {
      comparison.metrics.push_back(
          Judge(kJudgedMetrics[m], values[m], comparison.has_model_errors));
    }
  }
}

}  // namespace

DrawnProbability ProbabilityOf(double successes, int draws) {
  CHECK(draws >= 1 && successes >= 0 && successes <= draws);
  constexpr double kTail = 0.025;
  // Without long double, whose tables Boost fills at start-up and valgrind cannot compute.
  using Doubles = boost::math::policies::policy<boost::math::policies::promote_double<false>>;
  const double failures = draws - successes;
  const auto lowest = [&](double of, double others) {
    return of == 0 ? 0.0 : boost::math::ibeta_inv(of, others + 1, kTail, Doubles());
  };
  return {successes / draws, lowest(successes, failures), 1 - lowest(failures, successes)};
}

UncertaintyComparison CompareDraws(const std::vector<ExperimentConfig>& asked, int draws,
                                   RunControl& control) {
  UncertaintyComparison comparison;
  CostCache costs;
  std::vector<ExperimentConfig> experiments;
  comparison.first_seed = asked.front().seed;
  RequireSeeds("draws", comparison.first_seed, static_cast<std::uint64_t>(draws));
  for (ExperimentConfig config : asked) {
    if (!IsSimulated(config.world)) {
      throw InputError(InputError::Kind::kUsage, config.name,
                       "does not run in a simulated world; allowed: simulated runs");
    }
    config.seed = comparison.first_seed;
    comparison.has_model_errors = comparison.has_model_errors || HasModelErrors(config);
    experiments.push_back(Resolve(config, costs).config);
  }
  const auto count = static_cast<std::size_t>(draws);
  MetricDraws values(kJudgedMetrics.size(),
                     std::vector<Draws>(experiments.size(), Draws(count, std::nan(""))));
  const auto run = [&](std::size_t draw, RunControl& /*inner*/) {
    for (std::size_t i = 0; i < experiments.size(); ++i) {
      RunControl whole;  // a draw that has begun is completed
      const Deployment deployment = Resolve(DrawnConfig(experiments[i], draw + 1), costs);
      const Summary summary = Simulate(deployment, whole).summary;
      for (std::size_t m = 0; m < kJudgedMetrics.size(); ++m) {
        const bool has = summary.Find(kJudgedMetrics[m]) != nullptr;
        if (has) values[m][i][draw] = summary.Number(kJudgedMetrics[m]);
      }
    }
  };
  const auto done = [&](std::size_t /*draw*/) {
    ++comparison.draws;
    control.OnProgress("draws", static_cast<std::uint64_t>(comparison.draws), count);
  };
  RunInParallel(count, 0, control, run, done);
  control.OnProgressEnd();
  if (comparison.draws < kDrawsMin) {
    throw InputError(
        InputError::Kind::kUsage, "draws",
        fmt::format("only {} were made; allowed: at least {}", comparison.draws, kDrawsMin));
  }
  AddMetrics(values, comparison);
  return comparison;
}

}  // namespace twin::run
