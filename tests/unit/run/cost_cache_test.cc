// Cost models share what deployments of equal systems need.
#include "run/cost_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "config/experiment_config.h"
#include "core/input_error.h"
#include "run/deployment.h"
#include "sim/devices/profile_config.h"
#include "sim/devices/profile_cost.h"

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

const sim::StepModel& ModelOf(const Deployment& deployment) {
  return dynamic_cast<const sim::ProfileCost&>(*deployment.cost).model();
}

// What a model takes on a device does not depend on the seed, on drawn errors or on bounds.
TEST(CostCacheTest, EqualSystemsShareTheirOperationsAndOthersDoNot) {
  const std::string profile = "cost { profile {} }";
  CostCache cache;
  const Deployment first = Resolve(Config(profile), cache);
  const auto shares = [&](const Deployment& other) {
    return ModelOf(other).SharesStages(ModelOf(first));
  };
  EXPECT_TRUE(shares(Resolve(Config(profile + " seed: 7 slo { ttft_s: 1 }"), cache)));
  EXPECT_TRUE(shares(Resolve(Config("cost { profile { draw_seed: 1 } }"), cache)));
  EXPECT_FALSE(shares(Resolve(Config(profile, 2), cache)));
  EXPECT_FALSE(shares(Resolve(Config(profile))));  // without a cache
}

TEST(CostCacheTest, AProfileIsReadOnceUnlessItsFileMayHaveChanged) {
  CostCache cache;
  const auto profile = cache.Profile("h100-sxm");
  EXPECT_EQ(cache.Profile("h100-sxm"), profile);
  cache.ForgetProfiles();
  EXPECT_NE(cache.Profile("h100-sxm"), profile);
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
  EXPECT_EQ(config.cost.Get<sim::ProfileCostConfig>().profile, "/studies/mine");
}

}  // namespace
}  // namespace twin::run
