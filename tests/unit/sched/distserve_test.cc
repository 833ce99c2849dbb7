// Expected values: by hand from the rules in sched/policy/distserve.h and its source.
#include "sched/policy/distserve.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/input_error.h"
#include "sched/cluster.h"
#include "sched/policy/registry.h"
#include "tests/support/decided_trace.h"
#include "tests/support/driven_cluster.h"

namespace twin::testing {
namespace {

using Requests = DrivenCluster::Requests;

// One replica that prefills and one that decodes, in blocks of 4 tokens.
DrivenCluster Pair(const DistServeConfig& config, std::int32_t prefill_blocks,
                   std::int32_t decode_blocks) {
  std::vector<KvPoolConfig> kv;
  std::vector<ReplicaPool> pools;
  for (const std::int32_t blocks : {prefill_blocks, decode_blocks}) {
    kv.push_back({.block_size = 4, .blocks = blocks, .host_blocks = 8});
    pools.push_back({1, MakeRouter({}, 1, 4, 1), Duration{0}});
  }
  return DrivenCluster(std::make_unique<Cluster>(EnginesOf(config, kv), std::move(pools)));
}

// Two requests take 8 and 6 of the 20 blocks where they decode.
class BackPressureTest : public ::testing::Test {
 protected:
  BackPressureTest() {
    pair_.Arrive(28, 9);
    pair_.EndStep(0);
    EXPECT_EQ(pair_.fetched(), Requests{0});
    pair_.EndTransfer(0);
    EXPECT_EQ(pair_.Batch(1), Requests{0});
    pair_.Arrive(21, 9);
    pair_.EndStep(0);
    EXPECT_EQ(pair_.fetched(), Requests{});  // until the decode step has ended
    pair_.EndStep(1);
    EXPECT_EQ(pair_.fetched(), Requests{1});
    pair_.EndTransfer(1);
    pair_.EndStep(1);
    EXPECT_EQ(pair_.Batch(1), (Requests{0, 1}));
    EXPECT_EQ(pair_.FreeBlocks(0), 8);
    EXPECT_EQ(pair_.FreeBlocks(1), 6);
  }

  DrivenCluster pair_ = Pair(DistServeConfig{}, 8, 20);
};

// r1, r2, r3 and r4 are requests 3 to 6. Request 2 keeps the replica busy until three have
// come.
TEST_F(BackPressureTest, AFullDecodeSideStallsPrefill) {
  DrivenCluster& pair = pair_;
  pair.Arrive(4, 1);
  pair.Arrive(12, 9);  // 3 blocks
  pair.Arrive(12, 9);  // 3
  pair.Arrive(8, 9);   // 2: 8 in all
  pair.EndStep(0, {2});
  EXPECT_EQ(pair.Batch(0), (Requests{3, 4, 5}));
  EXPECT_EQ(pair.FreeBlocks(0), 0);
  pair.EndStep(0);
  pair.EndStep(1);
  // 6 blocks are free, but 3 are waiting then, which is no less than 5 % of 20.
  EXPECT_EQ(pair.fetched(), Requests{3});
  EXPECT_EQ(pair.FreeBlocks(1), 3);
  pair.EndTransfer(3);
  EXPECT_EQ(pair.FreeBlocks(0), 3);
  pair.Arrive(16, 9);  // 4 blocks
  EXPECT_EQ(pair.Batch(0), Requests{});
  // Request 0 leaves 8 blocks. r1 waits when requests are accepted, and joins the batch then.
  pair.EndStep(1, {0});
  EXPECT_EQ(pair.fetched(), Requests{});
  EXPECT_EQ(pair.Batch(1), (Requests{1, 3}));
  pair.EndStep(1);
  EXPECT_EQ(pair.fetched(), Requests{4});
  EXPECT_EQ(pair.Batch(0), Requests{});
  pair.EndTransfer(4);
  EXPECT_EQ(pair.Batch(0), Requests{6});
}

// 8 + 6 blocks of the batch, 3 that wait and 4 for the 13 tokens of the request that waits make 21
// of 20.
TEST_F(BackPressureTest, TheBlocksOfAWaitingRequestCountTwice) {
  pair_.Arrive(12, 9);
  pair_.EndStep(0);
  pair_.EndStep(1);
  EXPECT_EQ(pair_.fetched(), Requests{2});
  pair_.EndTransfer(2);
  pair_.EndStep(1, {});
  EXPECT_EQ(pair_.Batch(1), (Requests{0, 1}));
}

// 3 of 4 blocks wait, and 3 + 4 are more than 4.
TEST(DistServePolicyTest, ARequestThatOnlyFitsAloneJoinsWhenNobodyRuns) {
  DrivenCluster pair = Pair(DistServeConfig{}, 8, 4);
  pair.Arrive(12, 9);
  pair.EndStep(0);
  EXPECT_EQ(pair.fetched(), Requests{0});
  pair.EndTransfer(0);
  EXPECT_EQ(pair.Batch(1), Requests{0});
}

// Requests 0 and 1 wait in all 4 blocks; request 0 needs another one for its next token.
TEST(DistServePolicyTest, NobodyIsAcceptedIntoTheBlockThatTheFirstOneNeeds) {
  DistServeConfig config;
  config.waiting_block_prop_threshold = 1;
  DrivenCluster pair = Pair(config, 8, 4);
  pair.Arrive(12, 9);
  pair.Arrive(4, 9);
  pair.EndStep(0);
  pair.EndStep(0);
  EXPECT_EQ(pair.fetched(), Requests{});
  EXPECT_EQ(pair.FreeBlocks(1), 1);
  pair.EndTransfer(0);
  EXPECT_EQ(pair.Batch(1), Requests{0});
}

// 16 prompt tokens and the first of the output need 5 of 4 blocks.
TEST(DistServePolicyTest, RejectsWhatTheDecodeSideCanNeverHold) {
  DrivenCluster pair = Pair(DistServeConfig{}, 8, 4);
  pair.Arrive(16, 9);
  pair.EndStep(0);
  EXPECT_EQ(pair.fetched(), Requests{});
  EXPECT_EQ(pair.FreeBlocks(0), 8);
}

// Requests that end with their first token need no decode side. B exceeds the tokens of the first
// step, and C does not overtake it; the third step is full with two requests.
TEST(DistServePolicyTest, TheContextStageStopsAtTheFirstThatDoesNotFit) {
  DistServeConfig config;
  config.context_max_tokens_per_batch = 16;
  config.context_max_batch_size = 2;
  EXPECT_EQ(
      Decided(config, {.blocks = 8}, {{1, 10, 1}, {1, 7, 1}, {1, 3, 1}, {1, 2, 1}, {1, 17, 1}}),
      "it1: A:P10 | free=5 | fin=[A] | freeA=8\n"
      "it2: B:P7 C:P3 | free=5 | fin=[B,C] | freeA=8\n"
      "it3: D:P2 | rej=[E] | free=7 | fin=[D] | freeA=8\n");
}

// In it3 the next tokens of A and B need a block each, and none is free: C goes, then B. C has a
// place again, behind A; B needs 3 blocks until A ends.
TEST(DistServePolicyTest, SwapsOutTheLastAndTakesBackWhatFits) {
  EXPECT_EQ(Decided(DistServeConfig{}, {.blocks = 5, .host_blocks = 2},
                    {{1, 7, 4}, {1, 7, 4}, {1, 1, 6}}),
            "it1: A:P7 B:P7 C:P1 | free=0\n"
            "it2: A:D1 B:D1 C:D1 | free=0\n"
            "it3: A:D1 C:D1 | out=[B] | free=1\n"
            "it4: A:D1 C:D1 | free=1 | fin=[A] | freeA=4\n"
            "it5: C:D1 B:D1 | in=[B] | free=0\n"
            "it6: C:D1 B:D1 | free=0 | fin=[B,C] | freeA=5\n");
}

// The same without room on the host: B is computed again, in a step of its own.
TEST(DistServePolicyTest, ComputesAgainWhereTheHostIsFull) {
  EXPECT_EQ(Decided(DistServeConfig{}, {.blocks = 5, .host_blocks = 1},
                    {{1, 7, 4}, {1, 7, 4}, {1, 1, 6}}),
            "it1: A:P7 B:P7 C:P1 | free=0\n"
            "it2: A:D1 B:D1 C:D1 | free=0\n"
            "it3: A:D1 C:D1 | pre=[B] | free=1\n"
            "it4: A:D1 C:D1 | free=1 | fin=[A] | freeA=4\n"
            "it5: B:P9 | free=1\n"
            "it6: C:D1 B:D1 | free=0 | fin=[B] | freeA=3\n"
            "it7: C:D1 | free=3 | fin=[C] | freeA=5\n");
}

TEST(DistServePolicyTest, RefusesAShareThatAcceptsNobody) {
  for (const double share : {0.0, -1.0, 1.5}) {
    DistServeConfig config;
    config.waiting_block_prop_threshold = share;
    EXPECT_THROW(config.Validate(), InputError) << share;
  }
  EXPECT_NO_THROW(DistServeConfig{}.Validate());
}

}  // namespace
}  // namespace twin::testing
