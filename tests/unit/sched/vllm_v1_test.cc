// Expected values: golden cases vllm_v1*-ex4a to -ex4g (tests/golden/README.md), and, with drafts,
// the decisions of the scheduler of vLLM 0.15.1.
#include "sched/policy/vllm_v1.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/support/decided_trace.h"

namespace twin::testing {
namespace {

VllmV1Config SmallConfig(std::int32_t budget) {
  VllmV1Config config;
  config.release = VllmV1Release::k0_15_1;
  config.max_num_batched_tokens = budget;
  config.max_num_seqs = 4;
  config.max_model_len = 64;
  return config;
}

TEST(VllmV1PolicyTest, OneBudgetServesRunningThenWaiting) {
  EXPECT_EQ(Decided(SmallConfig(8), {.blocks = 8}, {{1, 6, 3}, {1, 5, 3}, {2, 3, 2}}),
            "it1: A:P6 B:P2 | free=5\n"
            "it2: A:D1 B:P3 C:P3 | free=3\n"
            "it3: A:D1 B:D1 C:D1 | free=3 | fin=[A,C] | freeA=6\n"
            "it4: B:D1 | free=6 | fin=[B] | freeA=8\n");
}

// 4b: it3 B needs a third block, it4 A does. From it5 on B blocks the head, though C would fit.
TEST(VllmV1PolicyTest, PreemptsTheLatestAndNeverSkipsTheHead) {
  EXPECT_EQ(Decided(SmallConfig(16), {.blocks = 5}, {{1, 6, 7}, {1, 7, 6}, {2, 3, 2}}),
            "it1: A:P6 B:P7 | free=1\n"
            "it2: A:D1 B:D1 C:P3 | free=0\n"
            "it3: A:D1 B:D1 | pre=[C] | free=0\n"
            "it4: A:D1 | pre=[B] | free=2\n"
            "it5: A:D1 | free=2\n"
            "it6: A:D1 | free=2\n"
            "it7: A:D1 | free=2 | fin=[A] | freeA=5\n"
            "it8: B:P10 C:P4 | free=1 | fin=[C] | freeA=2\n"
            "it9: B:D1 | free=2\n"
            "it10: B:D1 | free=2 | fin=[B] | freeA=5\n");
}

TEST(VllmV1PolicyTest, PriorityPreemptsTheLeastImportant) {
  VllmV1Config config = SmallConfig(16);
  config.policy = QueueOrder::kPriority;
  EXPECT_EQ(Decided(config, {.blocks = 5}, {{1, 6, 7, 1}, {1, 7, 6, 0}, {3, 3, 2, 0}}),
            "it1: B:P7 A:P6 | free=1\n"
            "it2: B:D1 A:D1 | free=1\n"
            "it3: B:D1 A:D1 | free=0\n"
            "it4: B:D1 | pre=[A] | free=2\n"
            "it5: B:D1 C:P3 | free=1\n"
            "it6: B:D1 C:D1 | free=1 | fin=[B,C] | freeA=5\n"
            "it7: A:P9 | free=2\n"
            "it8: A:D1 | free=2\n"
            "it9: A:D1 | free=2\n"
            "it10: A:D1 | free=2 | fin=[A] | freeA=5\n");
}

// A accepts 2 of its drafts and then 1, B none, 1 and 2. What is behind the limit is dropped.
TEST(VllmV1PolicyTest, VerifiesDraftsWithinTheBudget) {
  VllmV1Config config = SmallConfig(16);
  config.speculation = {.method = SpecMethod::kNgram, .num_speculative_tokens = 2};
  EXPECT_EQ(Decided(config, {.blocks = 19},
                    {{.prompt = 5, .output = 6, .accepts = {2, 1}},
                     {.prompt = 4, .output = 6, .accepts = {0, 1, 2}}}),
            "it1: A:P5 B:P4 | free=16\n"
            "it2: A:V3 B:V3 | free=15\n"
            "it3: A:V3 B:V3 | free=14 | fin=[A] | freeA=17\n"
            "it4: B:V3 | free=16 | fin=[B] | freeA=19\n");
}

// The requests of the test above without drafts take six iterations instead of four.
TEST(VllmV1PolicyTest, WithoutDraftsADecodeIsOneToken) {
  EXPECT_EQ(Decided(SmallConfig(16), {.blocks = 19}, {{1, 5, 6}, {1, 4, 6}}),
            "it1: A:P5 B:P4 | free=16\n"
            "it2: A:D1 B:D1 | free=15\n"
            "it3: A:D1 B:D1 | free=15\n"
            "it4: A:D1 B:D1 | free=15\n"
            "it5: A:D1 B:D1 | free=14\n"
            "it6: A:D1 B:D1 | free=13 | fin=[A,B] | freeA=19\n");
}

// The drafts' own slots take the block that B would need; nothing is ever accepted.
TEST(VllmV1PolicyTest, SlotsBehindTheDraftsPreempt) {
  VllmV1Config config = SmallConfig(16);
  config.speculation = {.method = SpecMethod::kDraftModel, .num_speculative_tokens = 2};
  EXPECT_EQ(Decided(config, {.blocks = 4}, {{1, 5, 4}, {1, 4, 4}}),
            "it1: A:P5 B:P4 | free=1\n"
            "it2: A:V3 | pre=[B] | free=1\n"
            "it3: A:V3 | free=1\n"
            "it4: A:V3 | free=1 | fin=[A] | freeA=4\n"
            "it5: B:P5 | free=2\n"
            "it6: B:V3 | free=1\n"
            "it7: B:V3 | free=1 | fin=[B] | freeA=4\n");
}

std::vector<std::uint64_t> Content(int common, int own, std::uint64_t name) {
  std::vector<std::uint64_t> content;
  for (int i = 0; i < common; ++i) content.push_back(static_cast<std::uint64_t>(1 + i));
  for (int i = 0; i < own; ++i) content.push_back(1000 * name + static_cast<std::uint64_t>(i));
  return content;
}

// 4d: 8 tokens in common. B hits in the very step that computes A's blocks; C may hit one block of
// its two, because one token must be computed; D evicts cached block 2, and takes blocks in the
// order in which they were released: tail first.
TEST(VllmV1PolicyTest, PrefixCachingSharesBlocksAndReusesTheOldestFreeOnes) {
  VllmV1Config config = SmallConfig(32);
  config.enable_prefix_caching = true;
  EXPECT_EQ(Decided(config, {.blocks = 8, .shows_blocks = true},
                    {{1, 10, 3, 0, Content(8, 2, 1)},
                     {1, 9, 2, 0, Content(8, 1, 2)},
                     {4, 8, 2, 0, Content(8, 0, 3)},
                     {5, 20, 2, 0, Content(0, 20, 4)}}),
            "it1: A:P10 B:P1 | free=4 A=[1,2,3] B=[1,2,4]\n"
            "it2: A:D1 B:D1 | free=4 A=[1,2,3] B=[1,2,4] | fin=[B] | freeA=5\n"
            "it3: A:D1 | free=5 A=[1,2,3] | fin=[A] | freeA=8\n"
            "it4: C:P4 | free=6 C=[1,5]\n"
            "it5: C:D1 D:P20 | free=0 C=[1,5,6] D=[7,8,4,3,2] | fin=[C] | freeA=3\n"
            "it6: D:D1 | free=2 D=[7,8,4,3,2,6] | fin=[D] | freeA=8\n");
}

// By hand. In it3 A takes blocks 7 and 8 and names their content, then B's third block is taken
// from A. Block 7 (tokens 16 to 19 of A) was never computed: in it4 A may hit its first 4 blocks
// only.
TEST(VllmV1PolicyTest, AWithdrawnItemLeavesNoNameOfWhatWasNotComputed) {
  VllmV1Config config = SmallConfig(32);
  config.policy = QueueOrder::kPriority;
  config.enable_prefix_caching = true;
  config.long_prefill_token_threshold = 8;
  EXPECT_EQ(Decided(config, {.blocks = 8, .shows_blocks = true},
                    {{1, 32, 1, 5, Content(0, 32, 1)}, {2, 8, 2, 0, Content(0, 8, 2)}}),
            "it1: A:P8 | free=6 A=[1,2]\n"
            "it2: A:P8 B:P8 | free=2 A=[1,2,3,4] B=[5,6]\n"
            "it3: B:D1 | pre=[A] | free=5 B=[5,6,8] | fin=[B] | freeA=8\n"
            "it4: A:P8 | free=2 A=[1,2,3,4,7,8]\n"
            "it5: A:P8 | free=0 A=[1,2,3,4,7,8,6,5] | fin=[A] | freeA=8\n");
}

// 4e and 4f: free blocks by hand, ceil(computed / 4) of every request.
TEST(VllmV1PolicyTest, TheThresholdCutsLongPrefills) {
  VllmV1Config config = SmallConfig(8);
  config.long_prefill_token_threshold = 3;
  EXPECT_EQ(Decided(config, {.blocks = 19}, {{1, 7, 2}, {1, 2, 3}, {1, 6, 2}}),
            "it1: A:P3 B:P2 C:P3 | free=16\n"
            "it2: A:P3 B:D1 C:P3 | free=14\n"
            "it3: A:P1 B:D1 C:D1 | free=14 | fin=[B,C] | freeA=17\n"
            "it4: A:D1 | free=17 | fin=[A] | freeA=19\n");
}

TEST(VllmV1PolicyTest, WithoutChunkingAPromptOverTheBudgetStopsAdmission) {
  VllmV1Config config = SmallConfig(8);
  config.enable_chunked_prefill = false;
  EXPECT_EQ(Decided(config, {.blocks = 19}, {{1, 5, 3}, {1, 4, 2}, {1, 2, 2}}),
            "it1: A:P5 | free=17\n"
            "it2: A:D1 B:P4 C:P2 | free=15\n"
            "it3: A:D1 B:D1 C:D1 | free=14 | fin=[A,B,C] | freeA=19\n");
}

// 4g: behind it3 both are certain to reach their limits with what is in flight.
TEST(VllmV1PolicyTest, AsynchronousSchedulingBuildsOnTokensInFlight) {
  VllmV1Config config = SmallConfig(8);
  config.async_scheduling = true;
  EXPECT_EQ(Decided(config, {.blocks = 19, .depth = 2}, {{1, 5, 3}, {1, 6, 2}}),
            "it1: A:P5 B:P3 | free=16\n"
            "it2: A:D1 B:P3 | free=15\n"
            "it3: A:D1 B:D1 | free=15\n"
            "it4: | free=15 | fin=[A,B] | freeA=19\n");
}

// 0.33.0 R1 (whole-sequence gate), by hand: B's first chunk would fit into the 2 free blocks, its
// 12 tokens do not.
TEST(VllmV1PolicyTest, Release033AdmitsOnlyWhatWouldFitWhole) {
  VllmV1Config config = SmallConfig(8);
  config.release = VllmV1Release::k0_33_0;
  EXPECT_EQ(Decided(config, {.blocks = 4}, {{1, 6, 2}, {1, 12, 1}}),
            "it1: A:P6 | free=2\n"
            "it2: A:D1 | free=2 | fin=[A] | freeA=4\n"
            "it3: B:P8 | free=2\n"
            "it4: B:P4 | free=1 | fin=[B] | freeA=4\n");
}

TEST(VllmV1PolicyTest, TheGateOfWholeSequencesIsThatOfRelease019) {
  VllmV1Config config = SmallConfig(8);
  config.release = VllmV1Release::k0_19_0;
  const std::string gated = Decided(config, {.blocks = 4}, {{1, 6, 2}, {1, 12, 1}});
  EXPECT_THAT(gated, ::testing::StartsWith("it1: A:P6 | free=2\nit2: A:D1 | free=2 | fin=[A]"));
  config.release = VllmV1Release::k0_15_1;
  EXPECT_THAT(Decided(config, {.blocks = 4}, {{1, 6, 2}, {1, 12, 1}}),
              ::testing::StartsWith("it1: A:P6 B:P2 | free=1\n"));
}

// By hand: the threshold of 4 cuts a prompt of 8 in two, until 0.31.0 lifts it for a lone request.
TEST(VllmV1PolicyTest, ALoneRequestHasNoThresholdSinceRelease031) {
  VllmV1Config config = SmallConfig(8);
  config.long_prefill_token_threshold = 4;
  config.release = VllmV1Release::k0_28_0;
  EXPECT_EQ(Decided(config, {.blocks = 4}, {{1, 8, 1}}),
            "it1: A:P4 | free=3\n"
            "it2: A:P4 | free=2 | fin=[A] | freeA=4\n");
  config.release = VllmV1Release::k0_31_0;
  EXPECT_EQ(Decided(config, {.blocks = 4}, {{1, 8, 1}}),
            "it1: A:P8 | free=2 | fin=[A] | freeA=4\n");
}

}  // namespace
}  // namespace twin::testing
