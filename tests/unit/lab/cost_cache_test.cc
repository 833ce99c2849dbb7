// Cost models are made once for deployments of equal systems.
#include "lab/cost_cache.h"

#include <gtest/gtest.h>

#include "core/input_error.h"
#include "lab/deployment.h"
#include "proto/experiment_config.h"

namespace twin::lab {
namespace {

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
}  // namespace twin::lab
