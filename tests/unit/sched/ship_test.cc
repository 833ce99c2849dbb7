// Expected values by hand: a pipeline of S stages of an iteration each returns the step of
// iteration n at the end of iteration n + S - 1.
#include "sched/policy/ship.h"

#include <gtest/gtest.h>

#include "sched/policy/registry.h"
#include "tests/support/decided_trace.h"

namespace twin::testing {
namespace {

constexpr auto kOwn = ShipConfig::PromptSlots::kOwn;

ShipConfig SlotsOf(std::int32_t slots, std::int32_t fill_tokens) {
  ShipConfig config;
  config.pipeline_parallel_size = slots;
  config.fill_tokens = fill_tokens;
  config.watermark = 0;
  return config;
}

// The first token is there after 3 - 1 + 4 = 6 iterations, each further one after 4.
TEST(ShipPolicyTest, ChunksOfAPromptFollowEachOtherThroughFreeSlots) {
  EXPECT_EQ(Decided(SlotsOf(4, 1), {.blocks = 10, .depth = 4}, {{1, 3, 2}}),
            "it1: A:P1 | free=9\n"
            "it2: A:P1 | free=9\n"
            "it3: A:P1 | free=9\n"
            "it4: | free=9\n"
            "it5: | free=9\n"
            "it6: | free=9\n"
            "it7: A:D1 | free=9\n"
            "it8: | free=9\n"
            "it9: | free=9\n"
            "it10: | free=9 | fin=[A] | freeA=10\n");
}

// In its own slot, a chunk of the prompt goes in when the one before it is out: 3 * 4 = 12.
TEST(ShipPolicyTest, APromptStaysInItsOwnSlotWhereAskedTo) {
  ShipConfig config = SlotsOf(4, 1);
  config.prompt_slots = kOwn;
  EXPECT_EQ(Decided(config, {.blocks = 10, .depth = 4}, {{1, 3, 2}}),
            "it1: A:P1 | free=9\n"
            "it2: | free=9\n"
            "it3: | free=9\n"
            "it4: | free=9\n"
            "it5: A:P1 | free=9\n"
            "it6: | free=9\n"
            "it7: | free=9\n"
            "it8: | free=9\n"
            "it9: A:P1 | free=9\n"
            "it10: | free=9\n"
            "it11: | free=9\n"
            "it12: | free=9\n"
            "it13: A:D1 | free=9\n"
            "it14: | free=9\n"
            "it15: | free=9\n"
            "it16: | free=9 | fin=[A] | freeA=10\n");
}

// A began first, so that both free slots are for its prompt. B has one of them afterwards.
TEST(ShipPolicyTest, FreeSlotsAreForThePromptThatBeganFirst) {
  EXPECT_EQ(Decided(SlotsOf(4, 1), {.blocks = 10, .depth = 4}, {{1, 3, 2}, {1, 3, 2}}),
            "it1: A:P1 | free=9\n"
            "it2: B:P1 | free=8\n"
            "it3: A:P1 | free=8\n"
            "it4: A:P1 | free=8\n"
            "it5: | free=8\n"
            "it6: B:P1 | free=8\n"
            "it7: B:P1 | free=8\n"
            "it8: A:D1 | free=8\n"
            "it9: | free=8\n"
            "it10: | free=8\n"
            "it11: B:D1 | free=8 | fin=[A] | freeA=9\n"
            "it12: | free=9\n"
            "it13: | free=9\n"
            "it14: | free=9 | fin=[B] | freeA=10\n");
}

// The slot of D is the first in which no other slot has fewer requests. All get a token in each
// fourth iteration.
TEST(ShipPolicyTest, FiveUsersOnFourSlotsShareOne) {
  EXPECT_EQ(Decided(SlotsOf(4, 20), {.blocks = 20, .depth = 4},
                    {{1, 3, 3}, {1, 3, 3}, {1, 3, 3}, {1, 3, 3}, {1, 3, 3}}),
            "it1: A:P3 | free=19\n"
            "it2: B:P3 | free=18\n"
            "it3: C:P3 | free=17\n"
            "it4: D:P3 E:P3 | free=15\n"
            "it5: A:D1 | free=15\n"
            "it6: B:D1 | free=15\n"
            "it7: C:D1 | free=15\n"
            "it8: D:D1 E:D1 | free=15\n"
            "it9: A:D1 | free=14\n"
            "it10: B:D1 | free=13\n"
            "it11: C:D1 | free=12\n"
            "it12: D:D1 E:D1 | free=10 | fin=[A] | freeA=12\n"
            "it13: | free=12 | fin=[B] | freeA=14\n"
            "it14: | free=14 | fin=[C] | freeA=16\n"
            "it15: | free=16 | fin=[D,E] | freeA=20\n");
}

// B leaves its slot in iteration 5. A and C stay together; D, who comes next, gets the slot of B.
TEST(ShipPolicyTest, RunningRequestsKeepTheirSlotAndNewOnesTakeTheEmptiest) {
  EXPECT_EQ(Decided(SlotsOf(2, 20), {.blocks = 100, .depth = 2},
                    {{1, 1, 6}, {2, 1, 2}, {3, 1, 4}, {6, 1, 2}}),
            "it1: A:P1 | free=99\n"
            "it2: B:P1 | free=98\n"
            "it3: A:D1 C:P1 | free=97\n"
            "it4: B:D1 | free=97\n"
            "it5: A:D1 C:D1 | free=97 | fin=[B] | freeA=98\n"
            "it6: D:P1 | free=97\n"
            "it7: A:D1 C:D1 | free=97\n"
            "it8: D:D1 | free=97\n"
            "it9: A:D1 C:D1 | free=96 | fin=[D] | freeA=97\n"
            "it10: | free=97 | fin=[C] | freeA=98\n"
            "it11: A:D1 | free=98\n"
            "it12: | free=98 | fin=[A] | freeA=100\n");
}

// The decode of A takes the place of a prompt token; B computes 3 + 2 + 1.
TEST(ShipPolicyTest, PromptsFillWhatDecodesLeave) {
  EXPECT_EQ(Decided(SlotsOf(1, 3), {.blocks = 10}, {{1, 3, 3}, {2, 4, 1}}),
            "it1: A:P3 | free=9\n"
            "it2: A:D1 B:P2 | free=8\n"
            "it3: A:D1 B:P2 | free=7 | fin=[A,B] | freeA=10\n");
}

TEST(ShipPolicyTest, APromptGoesOnWhereDecodesFillTheVisit) {
  EXPECT_EQ(Decided(SlotsOf(1, 1), {.blocks = 10}, {{1, 1, 4}, {1, 2, 2}}),
            "it1: A:P1 | free=9\n"
            "it2: A:D1 B:P1 | free=8\n"
            "it3: A:D1 B:P1 | free=8\n"
            "it4: A:D1 B:D1 | free=8 | fin=[A,B] | freeA=10\n");
}

// Blocks of two tokens. The fifth token of A needs a block: B, admitted last, starts over.
TEST(ShipPolicyTest, TheYoungestOfTheSlotIsPreempted) {
  EXPECT_EQ(Decided(SlotsOf(1, 20), {.block_size = 2, .blocks = 4}, {{1, 3, 3}, {1, 3, 3}}),
            "it1: A:P3 B:P3 | free=0\n"
            "it2: A:D1 B:D1 | free=0\n"
            "it3: A:D1 | pre=[B] | free=1 | fin=[A] | freeA=4\n"
            "it4: B:P5 | free=1 | fin=[B] | freeA=4\n");
}

// B is younger than A and in another slot: A gives way. It waits until its five tokens fit.
TEST(ShipPolicyTest, RequestsOfOtherSlotsAreNotPreempted) {
  EXPECT_EQ(
      Decided(SlotsOf(2, 20), {.block_size = 2, .blocks = 4, .depth = 2}, {{1, 3, 3}, {1, 3, 3}}),
      "it1: A:P3 | free=2\n"
      "it2: B:P3 | free=0\n"
      "it3: A:D1 | free=0\n"
      "it4: B:D1 | free=0\n"
      "it5: | pre=[A] | free=2\n"
      "it6: B:D1 | free=1\n"
      "it7: | free=1 | fin=[B] | freeA=4\n"
      "it8: A:P5 | free=1\n"
      "it9: | free=1 | fin=[A] | freeA=4\n");
}

// While A runs, an admission leaves two of the four blocks free: B waits for the end of A.
TEST(ShipPolicyTest, AnAdmissionLeavesTheWatermarkFree) {
  ShipConfig config = SlotsOf(2, 20);
  config.watermark = 0.5;
  EXPECT_EQ(Decided(config, {.blocks = 4, .depth = 2}, {{1, 9, 1}, {1, 1, 1}}),
            "it1: A:P9 | free=1\n"
            "it2: | free=1 | fin=[A] | freeA=4\n"
            "it3: B:P1 | free=3\n"
            "it4: | free=3 | fin=[B] | freeA=4\n");
}

// A has as many tokens as the context, B more than the cache. Neither takes a slot: C is served in
// the same step.
TEST(ShipPolicyTest, RejectsWhatCanNeverBeServed) {
  ShipConfig config = SlotsOf(2, 20);
  config.max_model_len = 20;
  EXPECT_EQ(Decided(config, {.blocks = 4, .depth = 2}, {{1, 20, 1}, {1, 17, 1}, {1, 5, 1}}),
            "it1: C:P5 | rej=[A,B] | free=2\n"
            "it2: | free=2 | fin=[C] | freeA=4\n");
}

TEST(ShipPolicyTest, PromisesWhatItsSlotsCanHold) {
  ShipConfig config = SlotsOf(4, 20);
  config.max_num_seqs = 9;
  PolicyTraits traits = config.Traits();
  EXPECT_EQ(traits.steps_in_flight_max, 4);
  EXPECT_EQ(traits.result_queue, ResultQueue::kPipeline);
  EXPECT_TRUE(traits.overlaps_own_steps);
  EXPECT_EQ(traits.sequences_per_step_max, 3) << "ceil(9 / 4)";
  EXPECT_EQ(traits.tokens_per_step_max, 20);
  config.prompt_slots = kOwn;
  config.max_num_seqs = 84;
  traits = config.Traits();
  EXPECT_FALSE(traits.overlaps_own_steps);
  EXPECT_EQ(traits.tokens_per_step_max, 21) << "a decode of each";
  EXPECT_EQ(SlotsOf(1, 20).Traits().result_queue, ResultQueue::kSynchronous);
}

// Nothing of these is known of such a machine.
TEST(ShipPolicyTest, HasNoDraftsPrefixesAndKvGroups) {
  PolicyConfig config = SlotsOf(4, 20);
  EXPECT_FALSE(SetSpeculation(config, {}));
  EXPECT_FALSE(TraitsOf(config).caches_prefixes);
  EXPECT_FALSE(TraitsOf(config).keeps_kv_groups);
}

}  // namespace
}  // namespace twin::testing
