#include "run/drawn_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

const DrawnMetric& MetricOf(const DrawnComparison& comparison, const std::string& name) {
  for (const DrawnMetric& metric : comparison.metrics) {
    if (metric.name == name) return metric;
  }
  throw std::out_of_range(name);
}

TEST(DrawnComparisonTest, AnExperimentIsNoBetterThanItself) {
  RunControl control;
  const DrawnComparison comparison = CompareDraws({Experiment(), Experiment()}, 12, control);
  EXPECT_EQ(comparison.draws, 12);
  EXPECT_TRUE(comparison.has_model_errors);
  const DrawnMetric& tpot = MetricOf(comparison, "mean_tpot_ms");
  EXPECT_EQ(tpot.difference.low, 0);
  EXPECT_EQ(tpot.difference.high, 0);
  EXPECT_EQ(tpot.second_is_better, 0.5);
  EXPECT_TRUE(tpot.causes.empty());  // what does not vary has no causes
}

// Twice the layers take longer whatever the cost model is wrong about, although both intervals are
// wide.
TEST(DrawnComparisonTest, CommonErrorsDoNotHideACertainDifference) {
  ExperimentConfig deep = Experiment();
  deep.system.model_spec.layers *= 2;
  RunControl control;
  const DrawnComparison comparison = CompareDraws({Experiment(), deep}, 20, control);
  for (const char* name : {"mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms"}) {
    const DrawnMetric& metric = MetricOf(comparison, name);
    EXPECT_GT(metric.difference.low, 0) << name;
    EXPECT_EQ(metric.second_is_better, 0) << name;
  }
}

TEST(DrawnComparisonTest, TheSpreadOfASingleExperimentHasCauses) {
  ExperimentConfig config = Experiment();
  // All chance comes from the cost model.
  config.workload.arrivals.kind = ArrivalConfig::Kind::kConstant;
  RunControl control;
  const DrawnComparison comparison = CompareDraws({config}, 60, control);
  const DrawnMetric& tpot = MetricOf(comparison, "mean_tpot_ms");
  EXPECT_LT(tpot.values[0].low, tpot.values[0].median);
  EXPECT_LT(tpot.values[0].median, tpot.values[0].high);
  ASSERT_FALSE(tpot.causes.empty());
  for (std::size_t i = 1; i < tpot.causes.size(); ++i) {
    EXPECT_GE(tpot.causes[i - 1].share, tpot.causes[i].share);
  }
}

TEST(DrawnComparisonTest, CostModelsWithoutErrorsAreDrawnByChanceAlone) {
  ExperimentConfig config = Experiment();
  config.cost = sim::ConstantCostConfig{};
  RunControl control;
  const DrawnComparison comparison = CompareDraws({config}, 10, control);
  EXPECT_FALSE(comparison.has_model_errors);
  EXPECT_TRUE(MetricOf(comparison, "mean_ttft_ms").causes.empty());
}

TEST(DrawnComparisonTest, RefusesRealWorlds) {
  ExperimentConfig config = Experiment();
  config.world = RealWorldConfig{};
  RunControl control;
  EXPECT_THAT([&] { CompareDraws({config}, 10, control); },
              ThrowsMessage<InputError>(HasSubstr("does not run in a simulated world")));
}

}  // namespace
}  // namespace twin::run
