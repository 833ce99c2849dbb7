// Expected values: golden cases vllm_v0*-ex3a to -ex3f (tests/golden/README.md), and by hand.
#include "sched/policy/vllm_v0.h"

#include <gtest/gtest.h>

#include "tests/support/decided_trace.h"

namespace twin::testing {
namespace {

VllmV0Config SmallConfig() {
  VllmV0Config config;
  config.max_num_batched_tokens = 16;
  config.max_num_seqs = 4;
  config.max_model_len = 64;
  return config;
}

// 3a. Behind it3 A and B need a block each to go on: V0 preempts at zero free blocks.
TEST(VllmV0PolicyTest, AdmitsWithoutHeadroomAndPreemptsSoonAfter) {
  EXPECT_EQ(Decided(SmallConfig(), {.blocks = 6}, {{1, 6, 6}, {1, 7, 5}, {3, 3, 2}}),
            "it1: A:P6 B:P7 | free=2\n"
            "it2: A:D1 B:D1 | free=2\n"
            "it3: C:P3 | free=1\n"
            "it4: A:D1 B:D1 | pre=[C] | free=1\n"
            "it5: C:P4 | free=0 | fin=[C] | freeA=1\n"
            "it6: A:D1 | pre=[B] | free=3\n"
            "it7: B:P10 | free=0\n"
            "it8: A:D1 | pre=[B] | free=3\n"
            "it9: B:P11 | free=0 | fin=[B] | freeA=3\n"
            "it10: A:D1 | free=3 | fin=[A] | freeA=6\n");
}

// 3b: 17 % of 6 blocks = 1 block.
TEST(VllmV0PolicyTest, TheWatermarkDampsAdmission) {
  VllmV0Config config = SmallConfig();
  config.watermark = 0.17;
  EXPECT_EQ(Decided(config, {.blocks = 6}, {{1, 6, 6}, {1, 7, 5}, {3, 3, 2}}),
            "it1: A:P6 B:P7 | free=2\n"
            "it2: A:D1 B:D1 | free=2\n"
            "it3: C:P3 | free=1\n"
            "it4: A:D1 B:D1 | pre=[C] | free=1\n"
            "it5: A:D1 | pre=[B] | free=3\n"
            "it6: A:D1 | free=3\n"
            "it7: A:D1 | free=3 | fin=[A] | freeA=6\n"
            "it8: B:P10 C:P4 | free=2 | fin=[C] | freeA=3\n"
            "it9: B:D1 | free=3 | fin=[B] | freeA=6\n");
}

// 3c: an iteration without work.
TEST(VllmV0PolicyTest, PriorityTakesMemoryForTheHeadAndAdmitsItLater) {
  VllmV0Config config = SmallConfig();
  config.policy = QueueOrder::kPriority;
  EXPECT_EQ(Decided(config, {.blocks = 5}, {{1, 9, 4, 5}, {3, 10, 2, 0}}),
            "it1: A:P9 | free=2\n"
            "it2: A:D1 | free=2\n"
            "it3: | pre=[A] | free=5\n"
            "it4: B:P10 | free=2\n"
            "it5: B:D1 | free=2 | fin=[B] | freeA=5\n"
            "it6: A:P11 | free=2\n"
            "it7: A:D1 | free=2 | fin=[A] | freeA=5\n");
}

// 3d: C waits while anything is swapped out.
TEST(VllmV0PolicyTest, SwapsOutAndAdmitsNobodyMeanwhile) {
  VllmV0Config config = SmallConfig();
  config.preemption_mode = VllmV0Config::PreemptionMode::kSwap;
  EXPECT_EQ(Decided(config, {.blocks = 5, .host_blocks = 4}, {{1, 6, 6}, {1, 7, 4}, {4, 3, 2}}),
            "it1: A:P6 B:P7 | free=1\n"
            "it2: A:D1 B:D1 | free=1\n"
            "it3: A:D1 B:D1 | free=0\n"
            "it4: A:D1 | out=[B] | free=2\n"
            "it5: A:D1 | free=2\n"
            "it6: A:D1 | free=2 | fin=[A] | freeA=5\n"
            "it7: B:D1 | in=[B] | free=2 | fin=[B] | freeA=5\n"
            "it8: C:P3 | free=4\n"
            "it9: C:D1 | free=4 | fin=[C] | freeA=5\n");
}

// 3e; free blocks by hand: ceil(known / 4) of every request.
TEST(VllmV0PolicyTest, EveryAdmissiblePromptStallsTheDecodes) {
  EXPECT_EQ(Decided(SmallConfig(), {.blocks = 20}, {{1, 4, 6}, {2, 12, 2}, {3, 14, 2}}),
            "it1: A:P4 | free=19\n"
            "it2: B:P12 | free=16\n"
            "it3: C:P14 | free=12\n"
            "it4: A:D1 B:D1 C:D1 | free=10 | fin=[B,C] | freeA=18\n"
            "it5: A:D1 | free=18\n"
            "it6: A:D1 | free=18\n"
            "it7: A:D1 | free=18\n"
            "it8: A:D1 | free=17 | fin=[A] | freeA=20\n");
}

// 3f, in batch order: new prefills, running prefills, decodes.
TEST(VllmV0PolicyTest, ChunkedPrefillServesDecodesFirst) {
  VllmV0Config config = SmallConfig();
  config.max_num_batched_tokens = 8;
  config.enable_chunked_prefill = true;
  EXPECT_EQ(Decided(config, {.blocks = 10}, {{1, 6, 3}, {1, 10, 2}, {2, 3, 3}}),
            "it1: A:P6 B:P2 | free=5\n"
            "it2: B:P7 A:D1 | free=5\n"
            "it3: C:P3 B:P1 A:D1 | free=4 | fin=[A] | freeA=6\n"
            "it4: B:D1 C:D1 | free=6 | fin=[B] | freeA=9\n"
            "it5: C:D1 | free=8 | fin=[C] | freeA=10\n");
}

// A holds the whole cache and needs nothing, but the rule wants one block more to be free: the
// original preempts A behind every chunk for ever. By hand, from the second denial on.
TEST(VllmV0PolicyTest, ALonePrefillThatHoldsItsBlocksIsDeniedThemOnlyOnce) {
  VllmV0Config config = SmallConfig();
  config.max_num_batched_tokens = 4;
  config.enable_chunked_prefill = true;
  EXPECT_EQ(Decided(config, {.blocks = 3}, {{1, 10, 1}}),
            "it1: A:P4 | free=0\n"
            "it2: | pre=[A] | free=3\n"
            "it3: A:P4 | free=0\n"
            "it4: A:P4 | free=0\n"
            "it5: A:P2 | free=0 | fin=[A] | freeA=3\n");
}

VllmV0Config Speculating(std::int32_t drafts) {
  VllmV0Config config = SmallConfig();
  config.speculation = {.method = SpecMethod::kNgram, .num_speculative_tokens = drafts};
  return config;
}

// The requests of VllmV1PolicyTest.VerifiesDraftsWithinTheBudget: with room for all slots V0
// decides as V1 does.
TEST(VllmV0PolicyTest, VerifiesDraftsLikeV1WhereMemorySuffices) {
  EXPECT_EQ(Decided(Speculating(2), {.blocks = 19},
                    {{.prompt = 5, .output = 6, .accepts = {2, 1}},
                     {.prompt = 4, .output = 6, .accepts = {0, 1, 2}}}),
            "it1: A:P5 B:P4 | free=16\n"
            "it2: A:V3 B:V3 | free=15\n"
            "it3: A:V3 B:V3 | free=14 | fin=[A] | freeA=17\n"
            "it4: B:V3 | free=16 | fin=[B] | freeA=19\n");
}

// By hand. In it3 A's slots touch its second and third block, in it4
// (8 known tokens and 2 drafts) again: one is free, and A is alone. Both start again in it5.
TEST(VllmV0PolicyTest, LookaheadSlotsPreempt) {
  EXPECT_EQ(Decided(Speculating(2), {.blocks = 4}, {{1, 5, 4}, {1, 4, 4}}),
            "it1: A:P5 B:P4 | free=1\n"
            "it2: A:V3 B:V3 | free=0\n"
            "it3: A:V3 | pre=[B] | free=1\n"
            "it4: | pre=[A] | free=4\n"
            "it5: A:P8 B:P6 | free=0 | fin=[A] | freeA=2\n"
            "it6: B:V3 | free=1 | fin=[B] | freeA=4\n");
}

// By hand. All drafts of it2 are accepted, so that 4 of 10 tokens are new to the block table: the
// slots up to 13 touch the second to the fourth block. One new block would do; two are free.
TEST(VllmV0PolicyTest, TokensSinceTheLastAppendCountAsTouched) {
  EXPECT_EQ(Decided(Speculating(3), {.blocks = 5}, {{.prompt = 5, .output = 8, .accepts = {3}}}),
            "it1: A:P5 | free=3\n"
            "it2: A:V4 | free=2\n"
            "it3: | pre=[A] | free=5\n"
            "it4: A:P10 | free=2\n"
            "it5: A:V4 | free=1\n"
            "it6: | pre=[A] | free=5\n"
            "it7: A:P12 | free=2 | fin=[A] | freeA=5\n");
}

// The slots are taken all the same.
TEST(VllmV0PolicyTest, LargeBatchesVerifyNoDrafts) {
  VllmV0Config config = Speculating(2);
  config.speculative_disable_by_batch_size = 2;
  EXPECT_EQ(Decided(config, {.blocks = 19}, {{1, 4, 3}, {1, 4, 2}}),
            "it1: A:P4 B:P4 | free=17\n"
            "it2: A:D1 B:D1 | free=15 | fin=[B] | freeA=17\n"
            "it3: A:V3 | free=17 | fin=[A] | freeA=19\n");
}

// With 6 known tokens, 2 drafts and 8 positions.
TEST(VllmV0PolicyTest, VerifiesNoDraftsThatCouldReachTheEndOfTheContext) {
  VllmV0Config config = Speculating(2);
  config.max_model_len = 8;
  EXPECT_EQ(Decided(config, {.blocks = 4}, {{1, 4, 4}}),
            "it1: A:P4 | free=3\n"
            "it2: A:V3 | free=2\n"
            "it3: A:D1 | free=2\n"
            "it4: A:D1 | free=1 | fin=[A] | freeA=4\n");
}

// Of 4 tokens A's decode takes one, whatever it verifies.
TEST(VllmV0PolicyTest, DraftsAreOutsideTheTokenBudget) {
  VllmV0Config config = Speculating(2);
  config.enable_chunked_prefill = true;
  config.max_num_batched_tokens = 4;
  EXPECT_EQ(Decided(config, {.blocks = 19}, {{1, 3, 3}, {2, 6, 2}}),
            "it1: A:P3 | free=18\n"
            "it2: B:P3 A:V3 | free=15\n"
            "it3: B:P3 A:V3 | free=15 | fin=[A] | freeA=17\n"
            "it4: B:V3 | free=16 | fin=[B] | freeA=19\n");
}

}  // namespace
}  // namespace twin::testing
