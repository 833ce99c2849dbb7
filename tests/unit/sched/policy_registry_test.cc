#include <gtest/gtest.h>

#include "sched/policy/registry.h"
#include "tests/support/hostile_policies.h"

namespace twin {
namespace {

TEST(PolicyRegistryTest, TraitsOfAConfigAreThoseOfThePolicyMadeFromIt) {
  for (const testing::PolicyMode& mode : testing::PolicyModes()) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Random random(seed, mode.name);
      const PolicyConfig config = mode.draw(random, 200).config;
      EXPECT_EQ(TraitsOf(config), MakePolicy(config, {.block_size = 4, .blocks = 50})->traits())
          << mode.name << ", seed " << seed;
    }
  }
}

TEST(PolicyRegistryTest, OnlyVllmV0WithSwappingNeedsHostBlocks) {
  EXPECT_TRUE(
      TraitsOf(VllmV0Config{.preemption_mode = VllmV0Config::PreemptionMode::kSwap}).swaps_to_host);
  EXPECT_FALSE(TraitsOf(VllmV0Config{}).swaps_to_host);
  EXPECT_FALSE(TraitsOf(VllmV1Config{}).swaps_to_host);
}

TEST(PolicyRegistryTest, ResultsReturnAsTheOriginalSystemsProcessThem) {
  constexpr auto k0151 = VllmV1Release::k0_15_1;
  EXPECT_EQ(TraitsOf(VllmV1Config{}).result_queue, ResultQueue::kSynchronous);
  EXPECT_EQ(TraitsOf(VllmV1Config{.async_scheduling = true}).result_queue,
            ResultQueue::kBatchQueue);
  EXPECT_EQ(TraitsOf(VllmV1Config{.release = k0151, .async_scheduling = true}).result_queue,
            ResultQueue::kAsync);
  EXPECT_EQ(TraitsOf(VllmV1Config{.pipeline_parallel_size = 2}).result_queue,
            ResultQueue::kBatchQueue);
  EXPECT_EQ(TraitsOf(VllmV1Config{.release = k0151, .pipeline_parallel_size = 2}).result_queue,
            ResultQueue::kPipeline);
  EXPECT_EQ(TraitsOf(SglangConfig{}).result_queue, ResultQueue::kOverlap);
  EXPECT_EQ(TraitsOf(OrcaConfig{.n_workers = 4}).result_queue, ResultQueue::kPipeline);
  EXPECT_EQ(TraitsOf(SarathiConfig{.pipeline_parallel_size = 2}).result_queue,
            ResultQueue::kPipeline);
}

}  // namespace
}  // namespace twin
