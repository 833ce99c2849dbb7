// Expected values: golden cases tgi_v2-ex7a and -ex7b (tests/golden/README.md).
#include "sched/policy/tgi_v2.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/decided_trace.h"

namespace twin::testing {
namespace {

TEST(TgiV2PolicyTest, EveryArrivalInterruptsASmallBatch) {
  TgiV2Config config;
  config.max_batch_prefill_tokens = 16;
  config.max_batch_total_tokens = 64;
  EXPECT_EQ(Decided(config, {.block_size = 4, .blocks = 16},
                    {{1, 6, 6}, {1, 5, 4}, {3, 3, 3}, {4, 9, 3}}),
            "it1: A:P6 B:P5 | free=11\n"
            "it2: A:D1 B:D1 | free=11\n"
            "it3: C:P3 | free=9\n"
            "it4: A:D1 B:D1 C:D1 | free=9\n"
            "it5: D:P9 | free=6\n"
            "it6: A:D1 B:D1 C:D1 D:D1 | free=6 | fin=[B,C] | freeA=10\n"
            "it7: A:D1 D:D1 | free=10 | fin=[D] | freeA=13\n"
            "it8: A:D1 | free=13 | fin=[A] | freeA=16\n");
}

// Two requests would have to wait; the third decode admits one.
TEST(TgiV2PolicyTest, WaitsForTheRatioOrForMaxWaitingTokens) {
  TgiV2Config config;
  config.max_batch_prefill_tokens = 16;
  config.max_batch_total_tokens = 40;
  config.waiting_served_ratio = 1.2;
  config.max_waiting_tokens = 3;
  EXPECT_EQ(Decided(config, {.block_size = 4, .blocks = 10},
                    {{1, 6, 6}, {1, 5, 4}, {3, 3, 3}, {4, 9, 3}}),
            "it1: A:P6 B:P5 | free=5\n"
            "it2: A:D1 B:D1 | free=5\n"
            "it3: A:D1 B:D1 | free=5\n"
            "it4: C:P3 | free=3\n"
            "it5: A:D1 B:D1 C:D1 | free=3 | fin=[B] | freeA=5\n"
            "it6: A:D1 C:D1 | free=5 | fin=[C] | freeA=7\n"
            "it7: D:P9 | free=4\n"
            "it8: A:D1 D:D1 | free=4 | fin=[A] | freeA=7\n"
            "it9: D:D1 | free=7 | fin=[D] | freeA=10\n");
}

// In blocks of 4, A asks for 8 + 4 tokens and B for 4 + 12: 28 of 20. In tokens it were 20.
TEST(TgiV2PolicyTest, CountsPromptAndOutputLimitInWholeBlocks) {
  TgiV2Config config;
  config.max_batch_total_tokens = 20;
  const std::string trace = Decided(config, {.block_size = 4, .blocks = 8}, {{1, 5, 2}, {1, 4, 9}});
  EXPECT_THAT(trace, ::testing::StartsWith("it1: A:P5 | free=6\n"
                                           "it2: A:D1 | free=6 | fin=[A] | freeA=8\n"
                                           "it3: B:P4 | free=5\n"
                                           "it4: B:D1 | free=5\n"));
}

// The router's validation: no later state of the batch could admit them.
TEST(TgiV2PolicyTest, RejectsWhatNeverFits) {
  TgiV2Config config;
  config.max_batch_prefill_tokens = 6;  // 8, in blocks of 4
  config.max_batch_total_tokens = 16;
  config.max_total_tokens = 14;
  EXPECT_EQ(
      Decided(config, {.block_size = 4, .blocks = 8}, {{1, 9, 1}, {1, 8, 7}, {1, 8, 6}, {1, 5, 9}}),
      "it1: C:P8 | rej=[A,B] | free=4\n"
      "it2: C:D1 | rej=[D] | free=4\n"
      "it3: C:D1 | free=4\n"
      "it4: C:D1 | free=4\n"
      "it5: C:D1 | free=4\n"
      "it6: C:D1 | free=4 | fin=[C] | freeA=8\n");
}

// D comes while A and C are in the system. C leaves before E comes. B is refused for its length and
// takes no place.
TEST(TgiV2PolicyTest, RefusesWhoComesBeyondMaxConcurrentRequests) {
  TgiV2Config config;
  config.max_batch_prefill_tokens = 16;
  config.max_total_tokens = 12;
  config.max_concurrent_requests = 2;
  EXPECT_EQ(Decided(config, {.block_size = 4, .blocks = 16},
                    {{1, 6, 3}, {1, 9, 9}, {1, 5, 2}, {2, 3, 2}, {3, 3, 2}}),
            "it1: A:P6 C:P5 | rej=[B] | free=12\n"
            "it2: A:D1 C:D1 | rej=[D] | free=12 | fin=[C] | freeA=14\n"
            "it3: E:P3 | free=13\n"
            "it4: A:D1 E:D1 | free=13 | fin=[A,E] | freeA=16\n");
}

}  // namespace
}  // namespace twin::testing
