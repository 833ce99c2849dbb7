// Cost models are made once for deployments of equal systems.
#include "run/cost_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "config/experiment_config.h"
#include "core/input_error.h"
#include "run/deployment.h"

namespace twin::run {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

ExperimentConfig Config(const std::string& more, int tensor_parallel = 1) {
  const std::string text =
      R"(workload { requests: 10 arrivals { kind: poisson rate: 1 } preset: conversation }
         policy { vllm_v1 {} }
         system { model: "llama-3-8b" hardware: "h100-sxm" tensor_parallel: )" +
      std::to_string(tensor_parallel) + " } " + more;
  return ParseExperiment(text, "test", "");
}

TEST(CostCacheTest, EqualSystemsShareTheirModelAndOthersDoNot) {
  CostCache cache;
  const Deployment first = Resolve(Config(""), cache);
  EXPECT_EQ(Resolve(Config("seed: 7 slo { ttft_s: 1 }"), cache).cost, first.cost);
  EXPECT_NE(Resolve(Config("", 2), cache).cost, first.cost);
  EXPECT_NE(Resolve(Config("cost { linear { base_s: 1 } }"), cache).cost, first.cost);
  EXPECT_NE(Resolve(Config("")).cost, first.cost);  // without a cache
}

TEST(CostCacheTest, AProfileIsReadOnce) {
  CostCache cache;
  EXPECT_EQ(cache.Profile("h100-sxm"), cache.Profile("h100-sxm"));
  const Deployment first = Resolve(Config("cost { profile {} }"), cache);
  EXPECT_EQ(Resolve(Config("cost { profile {} } seed: 2"), cache).cost, first.cost);
  EXPECT_NE(Resolve(Config("cost { profile { draw_seed: 1 } }"), cache).cost, first.cost);
}

// Any other profile than the one that was meant would be the data sheet's, without a word.
TEST(CostCacheTest, AProfileThatIsNoDeviceAndNoFolderIsRefused) {
  const auto with = [](const std::string& profile) {
    return Resolve(Config("cost { profile { profile: '" + profile + "' } }"));
  };
  EXPECT_NO_THROW(with("h200-sxm"));
  EXPECT_NO_THROW(with("a40"));  // known by its data sheet alone
  EXPECT_THAT([&] { with("h100-sxmm"); },
              ThrowsMessage<InputError>(
                  HasSubstr("cost.profile.profile: no device 'h100-sxmm'; nearest h100-sxm")));
  EXPECT_THAT(
      [&] { with("/no/such/folder"); },
      ThrowsMessage<InputError>(HasSubstr("cost.profile.profile: '/no/such/folder' is no folder")));
}

// Like every path of an experiment file.
TEST(CostCacheTest, AProfilesPathStartsAtTheFolderOfTheExperiment) {
  const ExperimentConfig config = ParseExperiment(
      "system { model: 'llama-3-8b' hardware: 'h100-sxm' } policy { vllm_v1 {} } "
      "workload { requests: 10 arrivals { kind: poisson rate: 1 } preset: conversation } "
      "cost { profile { profile: './mine' } }",
      "test", "/studies");
  EXPECT_EQ(std::get<sim::ProfileCostConfig>(config.cost).profile, "/studies/mine");
}

TEST(CostCacheTest, ForgetsTheModelsThatWereMadeLongAgo) {
  CostCache cache;
  const auto at = [&](int base_ms) {
    return Resolve(Config("cost { linear { base_s: " + std::to_string(base_ms) + "e-3 } }"), cache)
        .cost;
  };
  const std::weak_ptr<const sim::StepCost> first = at(1);
  EXPECT_EQ(first.lock(), at(1));
  for (int i = 2; i < 2 + static_cast<int>(CostCache::kModels); ++i) (void)at(i);
  EXPECT_TRUE(first.expired());
}

}  // namespace
}  // namespace twin::run
