// Expected values: golden cases sarathi-ex5a, sarathi-ex5c, sarathi_vllm-ex5b and
// sarathi_simple_chunking-ex5b2 (tests/golden/README.md).
#include "sched/policy/sarathi.h"

#include <gtest/gtest.h>

#include "tests/support/decided_trace.h"

namespace twin::testing {
namespace {

SarathiConfig SmallConfig() {
  SarathiConfig config;
  config.chunk_size = 8;
  config.max_num_seqs = 4;
  config.max_model_len = 64;
  return config;
}

// In batch order: prefill chunks, then decodes.
TEST(SarathiPolicyTest, ChunksFillWhatDecodesLeaveOfTheBudget) {
  EXPECT_EQ(Decided(SmallConfig(), {.blocks = 16}, {{1, 6, 4}, {1, 10, 3}, {2, 3, 3}, {3, 5, 2}}),
            "it1: A:P6 B:P2 | free=11\n"
            "it2: B:P7 A:D1 | free=11\n"
            "it3: B:P1 C:P3 D:P3 A:D1 | free=8\n"
            "it4: D:P2 A:D1 B:D1 C:D1 | free=7 | fin=[A] | freeA=10\n"
            "it5: B:D1 C:D1 D:D1 | free=9 | fin=[B,C,D] | freeA=16\n");
}

// 5c: in it3 C is preempted with one token of its prefill left, and admitted again in the same call
// with a chunk of that size.
TEST(SarathiPolicyTest, PreemptsTheLatestAndMayReadmitAMidPrefillVictimAtOnce) {
  EXPECT_EQ(Decided(SmallConfig(), {.blocks = 5}, {{1, 6, 6}, {1, 7, 5}, {2, 3, 2}}),
            "it1: A:P6 B:P2 | free=1\n"
            "it2: B:P5 C:P2 A:D1 | free=0\n"
            "it3: C:P1 A:D1 B:D1 | pre=[C] | free=0\n"
            "it4: A:D1 | pre=[C,B] | free=2\n"
            "it5: A:D1 | free=2\n"
            "it6: A:D1 | free=2 | fin=[A] | freeA=5\n"
            "it7: B:P8 | free=2\n"
            "it8: B:P1 C:P3 | free=1\n"
            "it9: B:D1 C:D1 | free=1 | fin=[C] | freeA=2\n"
            "it10: B:D1 | free=2 | fin=[B] | freeA=5\n");
}

// By hand: 2 stages of 16 tokens, sizes 8 (first) and 4; a multiple of min(32, low) = 4.
TEST(SarathiPolicyTest, DynamicChunksShrinkAsThePromptIsProcessed) {
  SarathiConfig config = SmallConfig();
  config.enable_dynamic_chunking_schedule = true;
  config.low_chunk_size = 4;
  config.high_chunk_size = 8;
  config.chunk_schedule_max_tokens = 32;
  config.chunk_schedule_stages = 2;
  EXPECT_EQ(Decided(config, {.blocks = 16}, {{1, 22, 1}}),
            "it1: A:P8 | free=10\n"
            "it2: A:P8 | free=10\n"
            "it3: A:P4 | free=10\n"
            "it4: A:P2 | free=10 | fin=[A] | freeA=16\n");
}

// 5b, first half: the budget of 16 is also the longest prompt.
TEST(SarathiPolicyTest, TheVllmSchedulerStopsDecodesForWholePrompts) {
  SarathiConfig config = SmallConfig();
  config.scheduler = SarathiConfig::Scheduler::kVllm;
  config.chunk_size = 16;
  EXPECT_EQ(Decided(config, {.blocks = 16}, {{1, 6, 4}, {1, 10, 3}, {2, 3, 3}, {3, 5, 2}}),
            "it1: A:P6 B:P10 | free=11\n"
            "it2: C:P3 | free=10\n"
            "it3: D:P5 | free=8\n"
            "it4: A:D1 B:D1 C:D1 D:D1 | free=8 | fin=[D] | freeA=10\n"
            "it5: A:D1 B:D1 C:D1 | free=9 | fin=[B,C] | freeA=14\n"
            "it6: A:D1 | free=13 | fin=[A] | freeA=16\n");
}

// 5b, second half.
TEST(SarathiPolicyTest, SimpleChunkingTakesTurns) {
  SarathiConfig config = SmallConfig();
  config.scheduler = SarathiConfig::Scheduler::kSimpleChunking;
  EXPECT_EQ(Decided(config, {.blocks = 16}, {{1, 6, 4}, {1, 10, 3}, {2, 3, 3}, {3, 5, 2}}),
            "it1: A:P6 B:P2 | free=11\n"
            "it2: A:D1 | free=11\n"
            "it3: B:P8 | free=11\n"
            "it4: A:D1 B:D1 | free=11\n"
            "it5: C:P3 D:P5 | free=8\n"
            "it6: A:D1 B:D1 C:D1 D:D1 | free=7 | fin=[A,B,D] | freeA=15\n"
            "it7: C:D1 | free=14 | fin=[C] | freeA=16\n");
}

// The turn of decodes is empty while a prompt of 10 tokens takes two chunks of 8.
TEST(SarathiPolicyTest, AnEmptyTurnOfSimpleChunkingTakesAnIterationOfUnitTime) {
  SarathiConfig config = SmallConfig();
  config.scheduler = SarathiConfig::Scheduler::kSimpleChunking;
  EXPECT_EQ(Decided(config, {.blocks = 16}, {{1, 10, 2}}),
            "it1: A:P8 | free=13\n"
            "it2: | free=13\n"
            "it3: A:P2 | free=13\n"
            "it4: A:D1 | free=13 | fin=[A] | freeA=16\n");
}

}  // namespace
}  // namespace twin::testing
