#include "run/uncertainty_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "config/experiment_config.h"
#include "core/input_error.h"
#include "sim/cost/constant_cost.h"

namespace twin::run {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char* kExperiment = R"(
schema_version: 1
name: "e"
seed: 1
workload {
  requests: 60
  arrivals { kind: poisson rate: 4 }
  shape { prompt { kind: fixed value: 512 } output { kind: fixed value: 32 } }
}
policy { vllm_v1 { max_num_batched_tokens: 2048 max_num_seqs: 64 } }
system { model: "llama-3-8b" hardware: "h100-sxm" }
cost { profile {} }
)";

ExperimentConfig Experiment() { return ParseExperiment(kExperiment, "e", "/"); }

const DrawnMetric& MetricOf(const UncertaintyComparison& comparison, const std::string& name) {
  for (const DrawnMetric& metric : comparison.metrics) {
    if (metric.name == name) return metric;
  }
  throw std::out_of_range(name);
}

TEST(UncertaintyComparisonTest, AnExperimentIsNoBetterThanItself) {
  RunControl control;
  const UncertaintyComparison comparison = CompareDraws({Experiment(), Experiment()}, 20, control);
  EXPECT_EQ(comparison.draws, 20);
  EXPECT_TRUE(comparison.has_model_errors);
  const DrawnMetric& tpot = MetricOf(comparison, "mean_tpot_ms");
  EXPECT_EQ(tpot.difference.low, 0);
  EXPECT_EQ(tpot.difference.high, 0);
  EXPECT_EQ(tpot.second_is_better.share, 0.5);
  EXPECT_FALSE(tpot.second_is_better.is_likely());
  EXPECT_FALSE(tpot.second_is_better.opposite().is_likely());
  EXPECT_TRUE(tpot.causes.empty());  // what does not vary has no causes
}

// Twice the layers take longer whatever the cost model is wrong about, although both intervals are
// wide.
TEST(UncertaintyComparisonTest, CommonErrorsDoNotHideACertainDifference) {
  ExperimentConfig deep = Experiment();
  deep.system.model_spec.layers *= 2;
  RunControl control;
  const UncertaintyComparison comparison = CompareDraws({Experiment(), deep}, 20, control);
  for (const char* name : {"mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms"}) {
    const DrawnMetric& metric = MetricOf(comparison, name);
    EXPECT_GT(metric.difference.low, 0) << name;
    EXPECT_EQ(metric.second_is_better.share, 0) << name;
    EXPECT_TRUE(metric.second_is_better.opposite().is_likely()) << name;
  }
}

TEST(UncertaintyComparisonTest, TheSpreadOfASingleExperimentHasCauses) {
  ExperimentConfig config = Experiment();
  // All chance comes from the cost model.
  config.workload.arrivals.kind = ArrivalConfig::Kind::kConstant;
  RunControl control;
  const UncertaintyComparison comparison = CompareDraws({config}, 60, control);
  const DrawnMetric& tpot = MetricOf(comparison, "mean_tpot_ms");
  EXPECT_LT(tpot.values[0].low, tpot.values[0].median);
  EXPECT_LT(tpot.values[0].median, tpot.values[0].high);
  ASSERT_FALSE(tpot.causes.empty());
  for (std::size_t i = 1; i < tpot.causes.size(); ++i) {
    EXPECT_GE(tpot.causes[i - 1].share, tpot.causes[i].share);
  }
}

TEST(UncertaintyComparisonTest, CostModelsWithoutErrorsAreDrawnByChanceAlone) {
  ExperimentConfig config = Experiment();
  config.cost = sim::ConstantCostConfig{};
  RunControl control;
  const UncertaintyComparison comparison = CompareDraws({config}, 19, control);
  EXPECT_FALSE(comparison.has_model_errors);
  EXPECT_TRUE(MetricOf(comparison, "mean_ttft_ms").causes.empty());
}

// Draws of runs whose own seeds differ belong together all the same.
TEST(UncertaintyComparisonTest, BothExperimentsHaveTheSeedsOfTheFirst) {
  ExperimentConfig deep = Experiment();
  deep.system.model_spec.layers += 1;
  ExperimentConfig shifted = deep;
  shifted.seed += 1;
  RunControl control;
  const UncertaintyComparison equal = CompareDraws({Experiment(), deep}, 20, control);
  const UncertaintyComparison unequal = CompareDraws({Experiment(), shifted}, 20, control);
  EXPECT_EQ(equal.first_seed, 1u);
  ASSERT_EQ(equal.metrics.size(), unequal.metrics.size());
  for (std::size_t m = 0; m < equal.metrics.size(); ++m) {
    const DrawnMetric& one = equal.metrics[m];
    const DrawnMetric& other = unequal.metrics[m];
    EXPECT_EQ(one.difference.median, other.difference.median) << one.name;
    EXPECT_EQ(one.difference.low, other.difference.low) << one.name;
    EXPECT_EQ(one.difference.high, other.difference.high) << one.name;
    EXPECT_EQ(one.second_is_better.share, other.second_is_better.share) << one.name;
  }
}

// R: binom.test(15, 20)$conf.int and binom.test(10, 10)$conf.int; without a failure, the lower end
// is 0.025^(1/n).
TEST(UncertaintyComparisonTest, AProbabilityHasTheIntervalOfClopperAndPearson) {
  const DrawnProbability fifteen = ProbabilityOf(15, 20);
  EXPECT_EQ(fifteen.share, 0.75);
  EXPECT_NEAR(fifteen.low, 0.5089541, 1e-6);
  EXPECT_NEAR(fifteen.high, 0.9134285, 1e-6);
  EXPECT_TRUE(fifteen.is_likely());
  EXPECT_FALSE(ProbabilityOf(14, 20).is_likely());  // P(14 and more of 20 at 1/2) = 0.058
  EXPECT_NEAR(ProbabilityOf(10, 10).low, std::pow(0.025, 0.1), 1e-9);
  EXPECT_EQ(ProbabilityOf(10, 10).high, 1);
  EXPECT_EQ(ProbabilityOf(0, 10).low, 0);
  EXPECT_NEAR(ProbabilityOf(0, 10).opposite().low, std::pow(0.025, 0.1), 1e-9);
}

TEST(UncertaintyComparisonTest, RefusesSeedsThatWouldBeginAgainAtZero) {
  ExperimentConfig config = Experiment();
  config.seed = 18446744073709551610u;  // 2^64 - 6
  RunControl control;
  EXPECT_THAT([&] { CompareDraws({config}, 19, control); },
              ThrowsMessage<InputError>(HasSubstr("is too large for 19 seeds in a row")));
}

TEST(UncertaintyComparisonTest, RefusesRealWorlds) {
  ExperimentConfig config = Experiment();
  config.world = RealWorldConfig{};
  RunControl control;
  EXPECT_THAT([&] { CompareDraws({config}, 19, control); },
              ThrowsMessage<InputError>(HasSubstr("does not run in a simulated world")));
}

}  // namespace
}  // namespace twin::run
