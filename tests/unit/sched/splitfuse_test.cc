// Expected values: golden cases mii_splitfuse-ex6a and -ex6b (tests/golden/README.md).
#include "sched/policy/splitfuse.h"

#include <gtest/gtest.h>

#include "tests/support/decided_trace.h"

namespace twin::testing {
namespace {

SplitFuseConfig SmallConfig() {
  SplitFuseConfig config;
  config.max_ragged_batch_size = 8;
  return config;
}

// A finished request keeps its blocks until the flush (rel) of the next pass; free is counted
// after it.
TEST(SplitFusePolicyTest, FillsEveryPassExactlyAndFlushesOnePassLater) {
  EXPECT_EQ(Decided(SmallConfig(), {.blocks = 16}, {{1, 6, 4}, {1, 10, 3}, {2, 3, 3}, {3, 5, 2}}),
            "it1: A:P6 B:P2 | free=13\n"
            "it2: A:D1 B:P7 | free=11\n"
            "it3: A:D1 B:P1 C:P3 D:P3 | free=9\n"
            "it4: A:D1 B:D1 C:D1 D:P2 | free=7 | fin=[A] | freeA=7\n"
            "it5: B:D1 C:D1 D:D1 | rel=[A] | free=9 | fin=[B,C,D] | freeA=9\n"
            "it6: | rel=[B,C,D] | free=16\n");
}

// 6b: in it3 C's last prompt token is stuck, in it4 everybody is: B is evicted. In it8 B needs 3
// blocks, but only 2 were free when that was decided.
TEST(SplitFusePolicyTest, EvictsOnlyWhenNothingAtAllCanRun) {
  EXPECT_EQ(Decided(SmallConfig(), {.blocks = 5}, {{1, 6, 6}, {1, 7, 5}, {2, 3, 2}}),
            "it1: A:P6 B:P2 | free=2\n"
            "it2: A:D1 B:P5 C:P2 | free=0\n"
            "it3: A:D1 B:D1 | free=0\n"
            "it4: | pre=[B] | free=2\n"
            "it5: A:D1 C:P1 | free=1\n"
            "it6: A:D1 C:D1 | free=1 | fin=[C] | freeA=1\n"
            "it7: A:D1 | rel=[C] | free=2 | fin=[A] | freeA=2\n"
            "it8: | rel=[A] | free=5\n"
            "it9: B:P8 | free=3\n"
            "it10: B:P1 | free=2\n"
            "it11: B:D1 | free=2\n"
            "it12: B:D1 | free=2 | fin=[B] | freeA=2\n"
            "it13: | rel=[B] | free=5\n");
}

// By hand. Behind it2 A holds all 3 blocks and needs none, but no block is free: the original
// evicts it for ever. The second time it goes on instead.
TEST(SplitFusePolicyTest, ALonePromptThatHoldsItsBlocksIsEvictedOnlyOnce) {
  SplitFuseConfig config;
  config.max_ragged_batch_size = 5;
  EXPECT_EQ(Decided(config, {.blocks = 3}, {{1, 12, 1}}),
            "it1: A:P5 | free=1\n"
            "it2: A:P5 | free=0\n"
            "it3: | pre=[A] | free=3\n"
            "it4: A:P5 | free=1\n"
            "it5: A:P5 | free=0\n"
            "it6: A:P2 | free=0 | fin=[A] | freeA=0\n"
            "it7: | rel=[A] | free=3\n");
}

}  // namespace
}  // namespace twin::testing
