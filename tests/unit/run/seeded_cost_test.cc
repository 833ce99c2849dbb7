// A cost model that draws random numbers draws those of its run's seed.
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "run/deployment.h"
#include "run/simulation.h"
#include "sim/cost/draft_cost.h"

namespace twin::run {
namespace {

constexpr const char* kExperiment = R"(
seed: 3
workload { requests: 60 arrivals { kind: poisson rate: 20 }
  shape { prompt { kind: uniform min: 10 max: 300 } output { kind: uniform min: 1 max: 40 } } }
policy { vllm_v1 { max_model_len: 512 } }
system { model: "llama-3-8b" hardware: "h100-sxm" memory { blocks_override: 400 } }
)";

ExperimentConfig Config(const std::string& cost, std::uint64_t seed) {
  ExperimentConfig config = ParseExperiment(kExperiment + ("cost { " + cost + " }"), "e", "/");
  config.seed = seed;
  return config;
}

std::string DigestOf(const Deployment& deployment) {
  RunControl control;
  return std::get<std::string>(*Simulate(deployment, control).summary.Find("digest"));
}

// Steps take as many milliseconds as the seed.
class SeedTime final : public sim::StepCost {
 public:
  explicit SeedTime(std::uint64_t seed) : seed_(seed) {}

  [[nodiscard]] Duration HostTime(const StepPlan& /*plan*/) const override { return Duration{0}; }
  void DeviceTimes(const StepPlan& /*plan*/, std::span<Duration> times) const override {
    times[0] = std::chrono::milliseconds(seed_);
  }
  [[nodiscard]] std::shared_ptr<const StepCost> Seeded(std::uint64_t seed) const override {
    return std::make_shared<SeedTime>(seed);
  }

 private:
  std::uint64_t seed_;
};

Duration StepOf(const sim::StepCost& cost) {
  StepPlan plan;
  plan.work.push_back({.tokens = 1, .emits = true});
  plan.totals = {.decode_items = 1, .emitting_items = 1};
  Duration time{0};
  cost.DeviceTimes(plan, {&time, 1});
  return time;
}

class SeededCostTest : public ::testing::TestWithParam<const char*> {};

// As `run --set seed=8` and the sixth replication of a study do it.
TEST_P(SeededCostTest, ARunOfASeedIsTheSameOnBothRoads) {
  const Deployment of_file = Resolve(Config(GetParam(), 8));
  const Deployment of_study = WithSeed(Resolve(Config(GetParam(), 3)), 8);
  EXPECT_EQ(DigestOf(of_study), DigestOf(of_file));
  EXPECT_NE(DigestOf(of_study), DigestOf(Resolve(Config(GetParam(), 3))));
}

INSTANTIATE_TEST_SUITE_P(CostModels, SeededCostTest,
                         ::testing::Values("constant { step_s: 0.01 }",
                                           "linear { base_s: 5e-3 per_prefill_token_s: 1e-5 }",
                                           "roofline {}", "profile {}",
                                           "profile { draw_seed: 4 }"));

TEST(SeededCostTest, TheCostModelOfADeploymentGetsTheSeedOfTheRun) {
  Deployment deployment = Resolve(Config("constant { step_s: 0.01 }", 3));
  deployment.cost = std::make_shared<SeedTime>(3);
  EXPECT_EQ(StepOf(*WithSeed(deployment, 8).cost), std::chrono::milliseconds(8));
  EXPECT_EQ(StepOf(*deployment.cost), std::chrono::milliseconds(3));
}

// The draft model runs 2 passes behind the target: 3 steps of 8 ms.
TEST(SeededCostTest, SoDoTargetAndDraftModelOfSpeculativeDecoding) {
  Deployment deployment = Resolve(Config("constant { step_s: 0.01 }", 3));
  deployment.cost = std::make_shared<sim::DraftCost>(
      std::make_shared<SeedTime>(3),
      sim::ProposerCost{.model = std::make_shared<SeedTime>(3), .drafts = 2});
  EXPECT_EQ(StepOf(*WithSeed(deployment, 8).cost), std::chrono::milliseconds(24));
}

TEST(SeededCostTest, SoDoGroupsOfReplicas) {
  std::string text = std::string(kExperiment) + "cost { constant { step_s: 0.01 } }";
  text.replace(text.find("system {"), 8, "system { replica_groups {} replica_groups {}");
  const ExperimentConfig config = ParseExperiment(text, "e", "/");
  Deployment deployment = Resolve(config);
  for (Deployment& group : deployment.groups) group.cost = std::make_shared<SeedTime>(3);
  const Deployment seeded = WithSeed(deployment, 8);
  ASSERT_EQ(seeded.world.groups.size(), 2U);
  for (const sim::SimReplicas& group : seeded.world.groups) {
    EXPECT_EQ(StepOf(*group.cost), std::chrono::milliseconds(8));
  }
  EXPECT_EQ(StepOf(*seeded.cost), std::chrono::milliseconds(8));
}

}  // namespace
}  // namespace twin::run
