// Expected values: golden cases sglang_fcfs-ex12b and -ex12b23 (tests/golden/README.md), and by
// hand.
#include "sched/policy/sglang.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "core/input_error.h"
#include "sched/engine.h"
#include "sched/policy/policy_config.h"
#include "tests/support/decided_trace.h"

namespace twin::testing {
namespace {

// Ratio fixed at 0.5, no chunks, one step at a time.
SglangConfig Plain() {
  SglangConfig config;
  config.radix_cache = false;
  config.chunked_prefill_size = -1;
  config.overlap = false;
  config.init_new_token_ratio = 0.5;
  config.min_new_token_ratio_factor = 1.0;
  return config;
}

TEST(SglangPolicyTest, WorkedExample12bWith22Tokens) {
  EXPECT_EQ(Decided(Plain(), {.block_size = 1, .blocks = 22}, {{1, 6, 8}, {1, 4, 8}, {1, 3, 4}}),
            "it1: A:P6 | free=16\n"
            "it2: A:D1 | free=15\n"
            "it3: A:D1 | free=14\n"
            "it4: A:D1 | free=13\n"
            "it5: A:D1 | free=12\n"
            "it6: A:D1 | free=11\n"
            "it7: A:D1 | free=10\n"
            "it8: A:D1 | free=9 | fin=[A] | freeA=22\n"
            "it9: B:P4 C:P3 | free=15\n"
            "it10: B:D1 C:D1 | free=13\n"
            "it11: B:D1 C:D1 | free=11\n"
            "it12: B:D1 C:D1 | free=9 | fin=[C] | freeA=15\n"
            "it13: B:D1 | free=14\n"
            "it14: B:D1 | free=13\n"
            "it15: B:D1 | free=12\n"
            "it16: B:D1 | free=11 | fin=[B] | freeA=22\n");
}

TEST(SglangPolicyTest, WorkedExample12bWith23Tokens) {
  EXPECT_EQ(Decided(Plain(), {.block_size = 1, .blocks = 23}, {{1, 6, 8}, {1, 4, 8}, {1, 3, 4}}),
            "it1: A:P6 | free=17\n"
            "it2: B:P4 | free=13\n"
            "it3: A:D1 B:D1 | free=11\n"
            "it4: A:D1 B:D1 | free=9\n"
            "it5: A:D1 B:D1 | free=7\n"
            "it6: A:D1 B:D1 | free=5\n"
            "it7: A:D1 B:D1 | free=3\n"
            "it8: A:D1 B:D1 | free=1\n"
            "it9: B:D1 | pre=[A] | free=12 | fin=[B] | freeA=23\n"
            "it10: C:P3 | free=20\n"
            "it11: A:P13 | free=7 | fin=[A] | freeA=20\n"
            "it12: C:D1 | free=19\n"
            "it13: C:D1 | free=18\n"
            "it14: C:D1 | free=17 | fin=[C] | freeA=23\n");
}

// By hand: the look at step 2 follows a prompt, so that the next one is at step 5. B comes at 3.
TEST(SglangPolicyTest, LooksForRequestsAtIntervalsWhileAllDecode) {
  SglangConfig config = Plain();
  config.scheduler_recv_interval = 3;
  EXPECT_EQ(Decided(config, {.block_size = 1, .blocks = 40}, {{1, 4, 7}, {3, 2, 2}}),
            "it1: A:P4 | free=36\n"
            "it2: A:D1 | free=35\n"
            "it3: A:D1 | free=34\n"
            "it4: A:D1 | free=33\n"
            "it5: B:P2 | free=31\n"
            "it6: A:D1 B:D1 | free=29 | fin=[B] | freeA=32\n"
            "it7: A:D1 | free=31\n"
            "it8: A:D1 | free=30 | fin=[A] | freeA=40\n");
}

// Chunks of 4: A and the first chunk of B, then its rest. The rest is not rounded to pages.
TEST(SglangPolicyTest, DividesOnePromptAtATime) {
  SglangConfig config = Plain();
  config.chunked_prefill_size = 4;
  EXPECT_EQ(Decided(config, {.block_size = 2, .blocks = 20}, {{1, 2, 1}, {1, 5, 2}}),
            "it1: A:P2 B:P2 | free=18 | fin=[A] | freeA=19\n"
            "it2: B:P3 | free=17\n"
            "it3: B:D1 | free=17 | fin=[B] | freeA=20\n");
}

// B finds the 3 tokens that A has left in the tree, of which its last one is computed again.
TEST(SglangPolicyTest, FinishedRequestsLeaveTheirPrefixesInTheTree) {
  SglangConfig config = Plain();
  config.radix_cache = true;
  EXPECT_EQ(Decided(config, {.block_size = 1, .blocks = 20},
                    {{1, 3, 1, 0, {7, 8, 9}}, {2, 3, 1, 0, {7, 8, 9}}}),
            "it1: A:P3 | free=17 | fin=[A] | freeA=20\n"
            "it2: B:P1 | free=17 | fin=[B] | freeA=20\n");
}

// The in-batch rule of lpm compares tokens, not pages: here 2, of pages of 4. Of two waiting
// requests that share so many, the later one waits behind the third; of two that share one, it does
// not.
TEST(SglangPolicyTest, WaitingRequestsAreComparedByTokens) {
  SglangConfig config = Plain();
  config.radix_cache = true;
  config.schedule_policy = SglangConfig::Order::kLpm;
  config.in_batch_deprioritize_threshold = 2;
  const TraceOptions pages{.block_size = 4, .blocks = 20};
  EXPECT_EQ(Decided(config, pages,
                    {{1, 3, 1, 0, {7, 8, 9}}, {1, 3, 1, 0, {7, 8, 5}}, {1, 3, 1, 0, {1, 2, 3}}}),
            "it1: A:P3 C:P3 B:P3 | free=17 | fin=[A,B,C] | freeA=20\n");
  EXPECT_EQ(Decided(config, pages,
                    {{1, 3, 1, 0, {7, 8, 9}}, {1, 3, 1, 0, {7, 9, 8}}, {1, 3, 1, 0, {1, 2, 3}}}),
            "it1: A:P3 B:P3 C:P3 | free=17 | fin=[A,B,C] | freeA=20\n");
}

// Pages of 4 and keys of 2 tokens: B finds the page that A has left, and not the half page behind.
TEST(SglangPolicyTest, TheTreeHoldsWholePagesWhereTheseHaveSeveralKeys) {
  SglangConfig config = Plain();
  config.radix_cache = true;
  config.schedule_policy = SglangConfig::Order::kLpm;
  config.in_batch_deprioritize_threshold = 2;
  EXPECT_EQ(Decided(config, {.block_size = 4, .blocks = 20},
                    {{1, 7, 1, 0, {1, 2, 3, 4, 5, 6, 7}}, {2, 7, 1, 0, {1, 2, 3, 4, 5, 6, 8}}}),
            "it1: A:P7 | free=18 | fin=[A] | freeA=20\n"
            "it2: B:P3 | free=18 | fin=[B] | freeA=20\n");
}

// The largest limit first, the earliest arrival among equal ones. Each step used to sort all who
// wait, and each cancellation to search them: quadratic in their number.
TEST(SglangPolicyTest, LargestLimitsGoFirstHoweverManyWait) {
  constexpr std::uint32_t kRequests = 100'000;
  constexpr std::int32_t kLimits = 100;
  SglangConfig config = Plain();
  config.schedule_policy = SglangConfig::Order::kLof;
  config.prefill_max_requests = 1;
  const KvPoolConfig kv{.block_size = 1, .blocks = 1'000};
  Engine engine({.kv = kv}, MakePolicy(config, kv));
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    engine.Handle(
        RequestArrived{{.id = RequestId{i},
                        .arrival = kTimeZero,
                        .prompt_tokens = 4,
                        .max_output_tokens = 1 + static_cast<std::int32_t>(i % kLimits)}});
  }
  for (std::uint32_t i = 0; i < kRequests / 2; ++i) {
    const StepPlan* const plan = engine.PlanStep(kTimeZero);
    ASSERT_NE(plan, nullptr);
    ASSERT_EQ(plan->work.size(), 1u);
    const RequestId served = plan->work.front().request;
    const std::uint32_t of_each_limit = kRequests / kLimits;
    const std::uint32_t limit = kLimits - 1 - i / of_each_limit;
    ASSERT_EQ(Index(served), limit + kLimits * (i % of_each_limit));
    const ItemOutcome ends[] = {{served, 1, FinishReason::kStop}};
    engine.Handle(StepFinished{plan->id, kTimeZero, ends, {}});
  }
  for (std::uint32_t i = kRequests; i-- > 0;) {
    if (i % kLimits < kLimits / 2) engine.Handle(RequestCancelled{RequestId{i}});
  }
  EXPECT_EQ(engine.PlanStep(kTimeZero), nullptr);
  engine.CheckDrained();
}

TEST(SglangPolicyTest, ChunksAreAtLeastABlock) {
  SglangConfig config;
  config.chunked_prefill_size = 15;
  EXPECT_NO_THROW(MakePolicy(config, {.block_size = 15, .blocks = 9}));
  EXPECT_THROW(MakePolicy(config, {.block_size = 16, .blocks = 9}), InputError);
}

TEST(NewTokenRatioTest, DecaysFromItsInitialValueToALeastShareOfIt) {
  NewTokenRatio ratio(1.0, 0.7, 0.14, 600);
  EXPECT_DOUBLE_EQ(ratio.value(), 0.7);
  ratio.Decay();
  EXPECT_DOUBLE_EQ(ratio.value(), 0.7 - (0.7 - 0.098) / 600);
  for (int i = 0; i < 600; ++i) ratio.Decay();
  EXPECT_DOUBLE_EQ(ratio.value(), 0.098);
  // (7 + 20 x 1) / (8 + 1), at most 1: example 12b.
  ratio.Retracted(7, 8, 20);
  EXPECT_DOUBLE_EQ(ratio.value(), 1.0);
  ratio.Retracted(10, 99, 20);
  EXPECT_DOUBLE_EQ(ratio.value(), 0.3);
  ratio.Reset();
  EXPECT_DOUBLE_EQ(ratio.value(), 0.7);
}

}  // namespace
}  // namespace twin::testing
