#include "sched/policy/lightllm.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/decided_trace.h"

namespace twin::testing {
namespace {

// The example of the rule: two requests run, the third is the candidate.
TEST(FuturePeakTest, IsTheMostAtTheEndsOfTheRequests) {
  const CacheGrowth requests[] = {{10, 6}, {8, 4}, {5, 2}};
  EXPECT_EQ(FuturePeakTokens(requests, 0), 29);
  const CacheGrowth example[] = {{10, 6}, {5, 4}, {8, 2}};
  EXPECT_EQ(FuturePeakTokens({example, 1}, 0), 16);
  EXPECT_EQ(FuturePeakTokens({example, 2}, 0), 23);
  EXPECT_EQ(FuturePeakTokens(example, 0), 29);
  // Blocks of four tokens: three requests can waste three tokens each.
  EXPECT_EQ(FuturePeakTokens(example, 3), 38);
  EXPECT_EQ(FuturePeakTokens({}, 3), 0);
}

LightllmConfig Config() {
  LightllmConfig config;
  config.batch_max_tokens = 20;
  config.max_waiting_iters = 2;
  return config;
}

// C arrives behind the first prompts and waits for two iterations that decode. By then A holds 9
// tokens and gets no more, so that the peak with C as (5, 2) is 14.
TEST(LightllmPolicyTest, AdmitsAfterItsWaitingIterationsInAnIterationOfPromptsAlone) {
  EXPECT_EQ(Decided(Config(), {.block_size = 1, .blocks = 24}, {{1, 6, 4}, {1, 5, 3}, {2, 4, 3}}),
            "it1: A:P6 B:P5 | free=13\n"
            "it2: A:D1 B:D1 | free=11\n"
            "it3: A:D1 B:D1 | free=9 | fin=[B] | freeA=16\n"
            "it4: C:P4 | free=12\n"
            "it5: A:D1 C:D1 | free=10 | fin=[A] | freeA=19\n"
            "it6: C:D1 | free=18 | fin=[C] | freeA=24\n");
}

// A as (7, 3) and B as (6, 2) reach 17 tokens when B ends, which must be below the cache.
TEST(LightllmPolicyTest, AdmitsOnlyBelowTheSizeOfTheCache) {
  EXPECT_EQ(Decided(Config(), {.block_size = 1, .blocks = 18}, {{1, 6, 4}, {1, 5, 3}}),
            "it1: A:P6 B:P5 | free=7\n"
            "it2: A:D1 B:D1 | free=5\n"
            "it3: A:D1 B:D1 | free=3 | fin=[B] | freeA=10\n"
            "it4: A:D1 | free=9 | fin=[A] | freeA=18\n");
  EXPECT_EQ(Decided(Config(), {.block_size = 1, .blocks = 17}, {{1, 6, 4}, {1, 5, 3}}),
            "it1: A:P6 | free=11\n"
            "it2: A:D1 | free=10\n"
            "it3: A:D1 | free=9\n"
            "it4: B:P5 | free=4\n"
            "it5: A:D1 B:D1 | free=2 | fin=[A] | freeA=11\n"
            "it6: B:D1 | free=10 | fin=[B] | freeA=17\n");
}

// B could never be computed, and C no longer fits beside A.
TEST(LightllmPolicyTest, PromptsOfAnIterationAreLimited) {
  LightllmConfig config = Config();
  config.batch_max_tokens = 6;
  EXPECT_EQ(Decided(config, {.block_size = 1, .blocks = 40}, {{1, 6, 1}, {1, 7, 1}, {1, 1, 1}}),
            "it1: A:P6 | rej=[B] | free=34 | fin=[A] | freeA=40\n"
            "it2: C:P1 | free=39 | fin=[C] | freeA=40\n");
}

}  // namespace
}  // namespace twin::testing
