// Expected values: golden cases trtllm_*-ex8a to -ex8f (tests/golden/README.md), and by hand.
#include "sched/policy/trtllm.h"

#include <gtest/gtest.h>

#include "tests/support/decided_trace.h"

namespace twin::testing {
namespace {

using Capacity = TrtllmConfig::Capacity;
using Chunking = TrtllmConfig::Chunking;

TrtllmConfig Config(Capacity capacity, std::int32_t tokens, Chunking chunking = Chunking::kNone) {
  TrtllmConfig config;
  config.capacity_scheduler_policy = capacity;
  config.context_chunking_policy = chunking;
  config.max_batch_size = 4;
  config.max_num_tokens = tokens;
  return config;
}

// Example 8a: D waits for the blocks that A and B may still need.
TEST(TrtllmPolicyTest, NoEvictCountsAllRequestsToTheirEnd) {
  EXPECT_EQ(Decided(Config(Capacity::kGuaranteedNoEvict, 12), {.block_size = 4, .blocks = 8},
                    {{1, 6, 6}, {1, 7, 5}, {1, 3, 2}, {3, 5, 2}}),
            "it1: A:P6 | free=6\n"
            "it2: B:P7 C:P3 A:D1 | free=3\n"
            "it3: A:D1 B:D1 C:D1 | free=3 | fin=[C] | freeA=4\n"
            "it4: D:P5 A:D1 B:D1 | free=0\n"
            "it5: A:D1 B:D1 D:D1 | free=0 | fin=[D] | freeA=2\n"
            "it6: A:D1 B:D1 | free=2 | fin=[A,B] | freeA=8\n");
}

// Example 8b.
TEST(TrtllmPolicyTest, MaxUtilizationPausesTheLastStartedRequest) {
  EXPECT_EQ(Decided(Config(Capacity::kMaxUtilization, 16), {.block_size = 4, .blocks = 5},
                    {{1, 6, 6}, {1, 7, 5}, {2, 3, 2}}),
            "it1: A:P6 B:P7 | free=1\n"
            "it2: C:P3 A:D1 B:D1 | free=0\n"
            "it3: A:D1 B:D1 | pre=[C] | free=0\n"
            "it4: A:D1 | pre=[B] | free=2\n"
            "it5: A:D1 | free=2\n"
            "it6: A:D1 | free=2 | fin=[A] | freeA=5\n"
            "it7: B:P10 C:P4 | free=1 | fin=[C] | freeA=2\n"
            "it8: B:D1 | free=2 | fin=[B] | freeA=5\n");
}

// Example 8c: the same requests.
TEST(TrtllmPolicyTest, NoEvictLetsTheSecondRequestWaitInstead) {
  EXPECT_EQ(Decided(Config(Capacity::kGuaranteedNoEvict, 16), {.block_size = 4, .blocks = 5},
                    {{1, 6, 6}, {1, 7, 5}, {2, 3, 2}}),
            "it1: A:P6 | free=3\n"
            "it2: A:D1 | free=3\n"
            "it3: A:D1 | free=3\n"
            "it4: A:D1 | free=2\n"
            "it5: A:D1 | free=2\n"
            "it6: A:D1 | free=2 | fin=[A] | freeA=5\n"
            "it7: B:P7 C:P3 | free=2\n"
            "it8: B:D1 C:D1 | free=2 | fin=[C] | freeA=3\n"
            "it9: B:D1 | free=2\n"
            "it10: B:D1 | free=2\n"
            "it11: B:D1 | free=2 | fin=[B] | freeA=5\n");
}

// Example 8d: chunks are rounded down to a block of 4.
TEST(TrtllmPolicyTest, ChunksFillTheStepInOrder) {
  EXPECT_EQ(Decided(Config(Capacity::kGuaranteedNoEvict, 8, Chunking::kFirstComeFirstServed),
                    {.block_size = 4, .blocks = 20}, {{1, 6, 3}, {1, 10, 2}, {2, 6, 2}}),
            "it1: A:P6 | free=18\n"
            "it2: B:P4 A:D1 | free=15\n"
            "it3: B:P6 A:D1 | free=15 | fin=[A] | freeA=17\n"
            "it4: C:P6 B:D1 | free=15 | fin=[B] | freeA=18\n"
            "it5: C:D1 | free=18 | fin=[C] | freeA=20\n");
}

// Example 8e: the same requests.
TEST(TrtllmPolicyTest, ChunksGrowEqually) {
  EXPECT_EQ(Decided(Config(Capacity::kGuaranteedNoEvict, 8, Chunking::kEqualProgress),
                    {.block_size = 4, .blocks = 20}, {{1, 6, 3}, {1, 10, 2}, {2, 6, 2}}),
            "it1: A:P4 B:P4 | free=15\n"
            "it2: A:P2 B:P6 | free=15\n"
            "it3: C:P6 A:D1 B:D1 | free=13 | fin=[B] | freeA=16\n"
            "it4: A:D1 C:D1 | free=16 | fin=[A,C] | freeA=20\n");
}

// By hand: B waits while A decodes and 4 + 1 tokens are below 0.9 x 12, for three steps.
TEST(TrtllmPolicyTest, PromptsWaitForCompanyUntilTheTimeout) {
  TrtllmConfig config = Config(Capacity::kGuaranteedNoEvict, 12);
  config.batch_wait_timeout_iters = 3;
  config.batch_wait_max_tokens_ratio = 0.9;
  EXPECT_EQ(Decided(config, {.block_size = 4, .blocks = 20}, {{1, 4, 8}, {2, 4, 2}}),
            "it1: A:P4 | free=19\n"
            "it2: A:D1 | free=18\n"
            "it3: A:D1 | free=18\n"
            "it4: A:D1 | free=18\n"
            "it5: B:P4 A:D1 | free=17\n"
            "it6: A:D1 B:D1 | free=15 | fin=[B] | freeA=17\n"
            "it7: A:D1 | free=17\n"
            "it8: A:D1 | free=17 | fin=[A] | freeA=20\n");
}

// By hand: with C, there are 4 + 6 + 1 tokens, which is enough.
TEST(TrtllmPolicyTest, PromptsWithEnoughCompanyWaitNoLonger) {
  TrtllmConfig config = Config(Capacity::kGuaranteedNoEvict, 12);
  config.batch_wait_timeout_iters = 3;
  config.batch_wait_max_tokens_ratio = 0.9;
  EXPECT_EQ(Decided(config, {.block_size = 4, .blocks = 20}, {{1, 4, 5}, {2, 4, 2}, {3, 6, 2}}),
            "it1: A:P4 | free=19\n"
            "it2: A:D1 | free=18\n"
            "it3: B:P4 C:P6 A:D1 | free=15\n"
            "it4: A:D1 B:D1 C:D1 | free=14 | fin=[B,C] | freeA=18\n"
            "it5: A:D1 | free=18 | fin=[A] | freeA=20\n");
}

// By hand: a window of 4 tokens takes up to 2 pages of 4. A takes both, so that B, which needs 2 of
// the 3, waits although there are blocks; C waits behind it.
TEST(TrtllmPolicyTest, NoEvictCountsPagesOfTheWindowPoolToTheEnd) {
  TrtllmConfig config = Config(Capacity::kGuaranteedNoEvict, 12);
  config.max_attention_window = 4;
  EXPECT_EQ(Decided(config, {.block_size = 4, .blocks = 20, .window_blocks = 3},
                    {{1, 6, 6}, {1, 3, 2}, {1, 3, 1}}),
            "it1: A:P6 | free=18\n"
            "it2: A:D1 | free=18\n"
            "it3: A:D1 | free=18\n"
            "it4: A:D1 | free=17\n"
            "it5: A:D1 | free=17\n"
            "it6: A:D1 | free=17 | fin=[A] | freeA=20\n"
            "it7: B:P3 C:P3 | free=18 | fin=[C] | freeA=19\n"
            "it8: B:D1 | free=19 | fin=[B] | freeA=20\n");
}

// By hand: the fifth token of A takes its second page, the third of all, so that B finds none.
TEST(TrtllmPolicyTest, MaxUtilizationPausesWhereTheWindowPoolIsFull) {
  TrtllmConfig config = Config(Capacity::kMaxUtilization, 12);
  config.max_attention_window = 4;
  EXPECT_EQ(
      Decided(config, {.block_size = 4, .blocks = 20, .window_blocks = 3}, {{1, 3, 4}, {1, 3, 4}}),
      "it1: A:P3 B:P3 | free=18\n"
      "it2: A:D1 B:D1 | free=18\n"
      "it3: A:D1 | pre=[B] | free=18\n"
      "it4: A:D1 | free=18 | fin=[A] | freeA=20\n"
      "it5: B:P5 | free=18\n"
      "it6: B:D1 | free=18 | fin=[B] | freeA=20\n");
}

// By hand: 30 tokens take 8 blocks, but no more than 2 pages.
TEST(TrtllmPolicyTest, ALongRequestTakesItsWindowAndOnePageMore) {
  TrtllmConfig config = Config(Capacity::kGuaranteedNoEvict, 32);
  config.max_attention_window = 4;
  EXPECT_EQ(Decided(config, {.block_size = 4, .blocks = 20, .window_blocks = 2}, {{1, 30, 2}}),
            "it1: A:P30 | free=12\n"
            "it2: A:D1 | free=12 | fin=[A] | freeA=20\n");
}

// Example 8f: the requests of 8a.
TEST(TrtllmPolicyTest, AStaticBatchIsClosedWhileSomeoneDecodes) {
  EXPECT_EQ(Decided(Config(Capacity::kStaticBatch, 16), {.block_size = 4, .blocks = 8},
                    {{1, 6, 6}, {1, 7, 5}, {1, 3, 2}, {3, 5, 2}}),
            "it1: A:P6 B:P7 C:P3 | free=3\n"
            "it2: A:D1 B:D1 C:D1 | free=3 | fin=[C] | freeA=4\n"
            "it3: A:D1 B:D1 | free=3\n"
            "it4: A:D1 B:D1 | free=2\n"
            "it5: A:D1 B:D1 | free=2 | fin=[B] | freeA=5\n"
            "it6: A:D1 | free=5 | fin=[A] | freeA=8\n"
            "it7: D:P5 | free=6\n"
            "it8: D:D1 | free=6 | fin=[D] | freeA=8\n");
}

TrtllmConfig Speculating(Capacity capacity, std::int32_t tokens) {
  TrtllmConfig config = Config(capacity, tokens);
  config.speculation = {.method = SpecMethod::kDraftModel, .num_speculative_tokens = 2};
  return config;
}

// By hand, with the requests of VllmV1PolicyTest.VerifiesDraftsWithinTheBudget. At their ends A
// holds 5 + 6 + 2 slots and B 4 + 6 + 2: 7 blocks.
TEST(TrtllmPolicyTest, DecodesVerifyTheirDrafts) {
  EXPECT_EQ(Decided(Speculating(Capacity::kGuaranteedNoEvict, 12), {.block_size = 4, .blocks = 8},
                    {{.prompt = 5, .output = 6, .accepts = {2, 1}},
                     {.prompt = 4, .output = 6, .accepts = {0, 1, 2}}}),
            "it1: A:P5 B:P4 | free=5\n"
            "it2: A:V3 B:V3 | free=4\n"
            "it3: A:V3 B:V3 | free=3 | fin=[A] | freeA=6\n"
            "it4: B:V3 | free=5 | fin=[B] | freeA=8\n");
}

// By hand: 3 + 4 tokens are two blocks, with two drafts behind them three. B waits, although both
// would fit without drafts.
TEST(TrtllmPolicyTest, NoEvictCountsDraftsToTheEnd) {
  EXPECT_EQ(Decided(Speculating(Capacity::kGuaranteedNoEvict, 12), {.block_size = 4, .blocks = 4},
                    {{1, 3, 4}, {1, 3, 4}}),
            "it1: A:P3 | free=3\n"
            "it2: A:V3 | free=2\n"
            "it3: A:V3 | free=2\n"
            "it4: A:V3 | free=2 | fin=[A] | freeA=4\n"
            "it5: B:P3 | free=3\n"
            "it6: B:V3 | free=2\n"
            "it7: B:V3 | free=2\n"
            "it8: B:V3 | free=2 | fin=[B] | freeA=4\n");
}

// By hand: B is paused when the drafts need the last block. No draft has a slot behind the output
// limit, so that both fit in it3, with one draft and none.
TEST(TrtllmPolicyTest, MaxUtilizationCountsDraftsUpToTheOutputLimit) {
  EXPECT_EQ(Decided(Speculating(Capacity::kMaxUtilization, 12), {.block_size = 4, .blocks = 3},
                    {{1, 3, 4}, {1, 3, 4}}),
            "it1: A:P3 B:P3 | free=1\n"
            "it2: A:V3 | pre=[B] | free=1\n"
            "it3: B:P4 A:V2 | free=0\n"
            "it4: A:D1 | pre=[B] | free=1 | fin=[A] | freeA=3\n"
            "it5: B:P5 | free=1\n"
            "it6: B:D1 | free=1 | fin=[B] | freeA=3\n");
}

// By hand: of 5 tokens A's decode takes 3, and B's does not fit.
TEST(TrtllmPolicyTest, ADecodeWhoseDraftsDoNotFitEndsTheBatch) {
  EXPECT_EQ(Decided(Speculating(Capacity::kGuaranteedNoEvict, 5), {.block_size = 4, .blocks = 8},
                    {{1, 3, 3}, {1, 2, 3}}),
            "it1: A:P3 B:P2 | free=6\n"
            "it2: A:V3 | free=5\n"
            "it3: A:V3 | free=5 | fin=[A] | freeA=7\n"
            "it4: B:V3 | free=6\n"
            "it5: B:V3 | free=6 | fin=[B] | freeA=8\n");
}

}  // namespace
}  // namespace twin::testing
