// Expected values: golden case tgi_v3-ex7c (tests/golden/README.md), and by hand.
#include "sched/policy/tgi_v3.h"

#include <gtest/gtest.h>

#include "tests/support/decided_trace.h"

namespace twin::testing {
namespace {

TgiV3Config WithoutCache(std::int32_t budget) {
  TgiV3Config config;
  config.max_batch_prefill_tokens = budget;
  config.prefix_caching = false;
  return config;
}

TEST(TgiV3PolicyTest, CutsTheLastPromptToTheBudgetAndLooksAtTheQueueEveryOtherStep) {
  EXPECT_EQ(Decided(WithoutCache(8), {.block_size = 1, .blocks = 63},
                    {{1, 6, 4}, {1, 10, 3}, {2, 3, 3}, {3, 5, 2}}),
            "it1: A:P6 B:P2 | free=42\n"
            "it2: A:D1 B:P7 | free=42\n"
            "it3: A:D1 B:P1 C:P3 D:P3 | free=31\n"
            "it4: A:D1 B:D1 C:D1 D:P2 | free=31 | fin=[A] | freeA=40\n"
            "it5: B:D1 C:D1 D:D1 | free=40 | fin=[B,C,D] | freeA=63\n");
}

// 20 tokens are 4 blocks of 4 and the one that is kept. C needs 3 of the 2 that A and B leave.
TEST(TgiV3PolicyTest, KeepsOneBlockOfMaxBatchTotalTokens) {
  TgiV3Config config = WithoutCache(16);
  config.max_batch_total_tokens = 20;
  EXPECT_EQ(Decided(config, {.block_size = 4, .blocks = 9}, {{1, 4, 1}, {1, 3, 2}, {1, 8, 2}}),
            "it1: A:P4 B:P3 | free=7 | fin=[A] | freeA=8\n"
            "it2: B:D1 C:P8 | free=5 | fin=[B] | freeA=6\n"
            "it3: C:D1 | free=6 | fin=[C] | freeA=9\n");
}

// B shares A's prompt of two blocks, but looks it up while A runs. C comes after A's end.
TEST(TgiV3PolicyTest, PromptsEnterTheCacheWhenTheirRequestEnds) {
  TgiV3Config config;
  config.max_batch_prefill_tokens = 16;
  const std::vector<std::uint64_t> content = {1, 2, 3, 4, 5};
  EXPECT_EQ(Decided(config, {.block_size = 2, .blocks = 20},
                    {{1, 5, 2, 0, content}, {1, 5, 3, 0, content}, {4, 5, 1, 0, content}}),
            "it1: A:P5 B:P5 | free=13\n"
            "it2: A:D1 B:D1 | free=13 | fin=[A] | freeA=16\n"
            "it3: B:D1 | free=16 | fin=[B] | freeA=20\n"
            "it4: C:P1 | free=17 | fin=[C] | freeA=20\n");
}

// B waits for memory and takes a place, too.
TEST(TgiV3PolicyTest, RequestsThatWaitCountAmongTheConcurrentOnes) {
  TgiV3Config config = WithoutCache(16);
  config.max_concurrent_requests = 2;
  EXPECT_EQ(Decided(config, {.block_size = 4, .blocks = 3}, {{1, 4, 3}, {1, 8, 2}, {2, 3, 2}}),
            "it1: A:P4 | free=1\n"
            "it2: A:D1 | rej=[C] | free=1\n"
            "it3: A:D1 | free=1 | fin=[A] | freeA=3\n"
            "it4: B:P8 | free=0\n"
            "it5: B:D1 | free=0 | fin=[B] | freeA=3\n");
}

}  // namespace
}  // namespace twin::testing
