// Expected values: golden cases static_padded-ex1a and sarathi_static-ex1b
// (tests/golden/README.md).
#include "sched/policy/static_batching.h"

#include <gtest/gtest.h>

#include "tests/support/decided_trace.h"

namespace twin::testing {
namespace {

// 2 rows x (longest prompt 10 + largest limit 4) = 28 slots are held until the batch ends. B has
// finished behind it2; its row is computed until A ends.
TEST(StaticPolicyTest, PadsAndKeepsFinishedRowsUntilTheBatchEnds) {
  StaticConfig config;
  config.max_batch_size = 2;
  EXPECT_EQ(Decided(config, {.block_size = 1, .blocks = 28}, {{1, 6, 4}, {1, 10, 2}, {1, 3, 3}}),
            "it1: A:P6 B:P10 | tokens=20 | free=0\n"
            "it2: A:D1 B:D1 | free=0 | fin=[B] | freeA=0\n"
            "it3: A:D1 | tokens=2 | free=0\n"
            "it4: A:D1 | tokens=2 | free=0 | fin=[A] | freeA=28\n"
            "it5: C:P3 | free=22\n"
            "it6: C:D1 | free=22\n"
            "it7: C:D1 | free=22 | fin=[C] | freeA=28\n");
}

TEST(StaticPolicyTest, TrimmedDropsFinishedRowsAndAdmitsIntoAnEmptyBatchOnly) {
  StaticConfig config;
  config.padded = false;
  config.max_batch_size = 4;
  config.max_model_len = 16;
  EXPECT_EQ(Decided(config, {.blocks = 12}, {{1, 6, 4}, {1, 10, 3}, {2, 3, 3}, {3, 5, 2}}),
            "it1: A:P6 B:P10 | free=4\n"
            "it2: A:D1 B:D1 | free=4\n"
            "it3: A:D1 B:D1 | free=4 | fin=[B] | freeA=8\n"
            "it4: A:D1 | free=8 | fin=[A] | freeA=12\n"
            "it5: C:P3 D:P5 | free=4\n"
            "it6: C:D1 D:D1 | free=4 | fin=[D] | freeA=8\n"
            "it7: C:D1 | free=8 | fin=[C] | freeA=12\n");
}

TEST(StaticPolicyTest, ReservesForALimitOfItsOwnOnlyWhereItDoesNotPad) {
  StaticConfig config;
  config.max_model_len = 12;
  EXPECT_EQ(StaticPolicy(config).traits().context_tokens_max, 0);
  config.padded = false;
  EXPECT_EQ(StaticPolicy(config).traits().context_tokens_max, 12);
}

TEST(StaticPolicyTest, RejectsWhatNoEmptyCacheCanHold) {
  StaticConfig config;
  EXPECT_EQ(Decided(config, {.block_size = 1, .blocks = 9}, {{1, 6, 4}, {1, 6, 3}}),
            "it1: B:P6 | rej=[A] | free=0\n"
            "it2: B:D1 | free=0\n"
            "it3: B:D1 | free=0 | fin=[B] | freeA=9\n");
}

}  // namespace
}  // namespace twin::testing
