// Expected values: by hand.
#include "sched/policy/ordered_queue.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "sched/policy/tgi_v2.h"
#include "sched/policy/vllm_v1.h"
#include "tests/support/decided_trace.h"

namespace twin::testing {
namespace {

using Kind = OrderConfig::Kind;

// vLLM V1 with room for `sequences` requests.
VllmV1Config Core(const OrderConfig& order, std::int32_t sequences = 1) {
  VllmV1Config config;
  config.max_num_batched_tokens = 64;
  config.max_num_seqs = sequences;
  config.max_model_len = 64;
  config.order = order;
  return config;
}

Asked Predicted(std::int32_t step, std::int32_t prompt, std::int32_t output,
                std::int32_t predicted) {
  return {.step = step, .prompt = prompt, .output = output, .predicted = predicted};
}

TEST(OrderedQueueTest, ShortestJobFirstServesSmallPredictionsFirstAndPreemptsNobody) {
  EXPECT_EQ(Decided(Core({.kind = Kind::kSjf}), {.blocks = 20},
                    {Predicted(1, 4, 5, 5), Predicted(1, 4, 3, 3), Predicted(2, 4, 2, 2),
                     Predicted(2, 4, 2, 2)}),
            "it1: B:P4 | free=19\n"
            "it2: B:D1 | free=18\n"
            "it3: B:D1 | free=18 | fin=[B] | freeA=20\n"
            "it4: C:P4 | free=19\n"
            "it5: C:D1 | free=18 | fin=[C] | freeA=20\n"
            "it6: D:P4 | free=19\n"
            "it7: D:D1 | free=18 | fin=[D] | freeA=20\n"
            "it8: A:P4 | free=19\n"
            "it9: A:D1 | free=18\n"
            "it10: A:D1 | free=18\n"
            "it11: A:D1 | free=18\n"
            "it12: A:D1 | free=18 | fin=[A] | freeA=20\n");
}

TEST(OrderedQueueTest, ShortestJobCanBeTheShortestPrompt) {
  const OrderConfig order{.kind = Kind::kSjf, .size = OrderConfig::Size::kPrompt};
  EXPECT_EQ(Decided(Core(order), {.blocks = 20}, {Predicted(1, 9, 1, 1), Predicted(1, 3, 2, 50)}),
            "it1: B:P3 | free=19\n"
            "it2: B:D1 | free=19 | fin=[B] | freeA=20\n"
            "it3: A:P9 | free=17 | fin=[A] | freeA=20\n");
}

// A has 4 tokens left when B with 2 arrives; its 2 output tokens are computed again.
TEST(OrderedQueueTest, ShortestRemainingTimeTakesThePlaceOfALongerRequest) {
  EXPECT_EQ(Decided(Core({.kind = Kind::kSrpt}), {.blocks = 20},
                    {Predicted(1, 4, 6, 6), Predicted(3, 4, 2, 2)}),
            "it1: A:P4 | free=19\n"
            "it2: A:D1 | free=18\n"
            "it3: B:P4 | pre=[A] | free=19\n"
            "it4: B:D1 | free=18 | fin=[B] | freeA=20\n"
            "it5: A:P6 | free=18\n"
            "it6: A:D1 | free=18\n"
            "it7: A:D1 | free=18\n"
            "it8: A:D1 | free=17 | fin=[A] | freeA=20\n");
}

// In it2 both have 2 tokens left.
TEST(OrderedQueueTest, EqualRemainingTimesPreemptNobody) {
  EXPECT_EQ(Decided(Core({.kind = Kind::kSrpt}), {.blocks = 20},
                    {Predicted(1, 4, 3, 3), Predicted(2, 4, 2, 2)}),
            "it1: A:P4 | free=19\n"
            "it2: A:D1 | free=18\n"
            "it3: A:D1 | free=18 | fin=[A] | freeA=20\n"
            "it4: B:P4 | free=19\n"
            "it5: B:D1 | free=18 | fin=[B] | freeA=20\n");
}

// B needs 2 of 3 blocks, of which A holds 2.
TEST(OrderedQueueTest, ShortestRemainingTimeTakesMemoryFromALongerRequest) {
  EXPECT_EQ(Decided(Core({.kind = Kind::kSrpt}, 4), {.blocks = 3},
                    {Predicted(1, 6, 5, 5), Predicted(2, 5, 1, 1)}),
            "it1: A:P6 | free=1\n"
            "it2: B:P5 | pre=[A] | free=1 | fin=[B] | freeA=3\n"
            "it3: A:P7 | free=1\n"
            "it4: A:D1 | free=1\n"
            "it5: A:D1 | free=0\n"
            "it6: A:D1 | free=0 | fin=[A] | freeA=3\n");
}

// A is predicted to end after 2 tokens. Behind the 2nd it counts as one of 4, behind the 4th as one
// of 8, which leaves 4: more than B's 3.
TEST(OrderedQueueTest, ARequestThatOutlivesItsPredictionCountsAsTwiceAsLong) {
  EXPECT_EQ(Decided(Core({.kind = Kind::kSrpt}), {.blocks = 20},
                    {Predicted(1, 4, 9, 2), Predicted(4, 4, 3, 3)}),
            "it1: A:P4 | free=19\n"
            "it2: A:D1 | free=18\n"
            "it3: A:D1 | free=18\n"
            "it4: A:D1 | free=18\n"
            "it5: B:P4 | pre=[A] | free=19\n"
            "it6: B:D1 | free=18\n"
            "it7: B:D1 | free=18 | fin=[B] | freeA=20\n"
            "it8: A:P8 | free=18\n"
            "it9: A:D1 | free=17\n"
            "it10: A:D1 | free=17\n"
            "it11: A:D1 | free=17\n"
            "it12: A:D1 | free=17 | fin=[A] | freeA=20\n");
}

TEST(OrderedQueueTest, WithoutAPredictionTheOutputLimitIsExpected) {
  Sequence s;
  s.prompt_tokens = s.known = 10;
  s.max_output_tokens = 100;
  EXPECT_EQ(ExpectedOutput(s), 100);
  s.predicted_output_tokens = 0;
  EXPECT_EQ(ExpectedOutput(s), 1);
  s.known = 10 + 60;
  s.predicted_output_tokens = 40;
  EXPECT_EQ(ExpectedOutput(s), 80);
  s.known = 10 + 90;
  EXPECT_EQ(ExpectedOutput(s), 100) << "not beyond the limit";
}

// In it2 B grows and A has to go, although it came first.
TEST(OrderedQueueTest, WhereMemoryRunsOutTheLastInTheOrderGoes) {
  EXPECT_EQ(Decided(Core({.kind = Kind::kSjf}, 4), {.blocks = 3},
                    {Predicted(1, 4, 4, 4), Predicted(1, 4, 3, 3)}),
            "it1: B:P4 A:P4 | free=1\n"
            "it2: B:D1 | pre=[A] | free=1\n"
            "it3: B:D1 | free=1 | fin=[B] | freeA=3\n"
            "it4: A:P5 | free=1\n"
            "it5: A:D1 | free=1\n"
            "it6: A:D1 | free=1 | fin=[A] | freeA=3\n");
}

// Waiting for 2 iterations counts as one level: B, of level 3, counts as if it had come at 1 + 3 x
// 2 = 7 with level 0: behind C of 4 and before D of 8.
TEST(OrderedQueueTest, PriorityGrowsWithWaiting) {
  const std::vector<Asked> asked = {{1, 4, 4, 0}, {1, 4, 1, 3}, {4, 4, 4, 0}, {8, 4, 1, 0}};
  const std::string head =
      "it1: A:P4 | free=19\n"
      "it2: A:D1 | free=18\n"
      "it3: A:D1 | free=18\n"
      "it4: A:D1 | free=18 | fin=[A] | freeA=20\n"
      "it5: C:P4 | free=19\n"
      "it6: C:D1 | free=18\n"
      "it7: C:D1 | free=18\n"
      "it8: C:D1 | free=18 | fin=[C] | freeA=20\n";
  EXPECT_EQ(Decided(Core({.kind = Kind::kPriority, .ageing = Duration{2}}), {.blocks = 20}, asked),
            head +
                "it9: B:P4 | free=19 | fin=[B] | freeA=20\n"
                "it10: D:P4 | free=19 | fin=[D] | freeA=20\n");
  EXPECT_EQ(Decided(Core({.kind = Kind::kPriority}), {.blocks = 20}, asked),
            head +
                "it9: D:P4 | free=19 | fin=[D] | freeA=20\n"
                "it10: B:P4 | free=19 | fin=[B] | freeA=20\n");
}

TEST(OrderedQueueTest, AgesOfExtremePrioritiesDoNotOverflow) {
  const OrderConfig order{.kind = Kind::kPriority, .ageing = Duration{1'000'000'000'000'000'000}};
  Sequence least;
  least.priority = std::numeric_limits<std::int32_t>::max();
  Sequence most;
  most.priority = std::numeric_limits<std::int32_t>::min();
  EXPECT_LT(OrderKey(order, most), OrderKey(order, Sequence{}));
  EXPECT_LT(OrderKey(order, Sequence{}), OrderKey(order, least));
}

// The requests of FairQueueTest.CountersFollowTheWorkedExample: X has A to D, Y has E and F;
// requests reserve prompt and output of 15 tokens. Its t0 is it1 and it2, t1 is it3 (Y is lifted to
// 12, as much as X, and nothing fits), t2 is it4 and it5, ...
TEST(OrderedQueueTest, VirtualTokenCountersServeTheTenantThatWasServedLeast) {
  TgiV2Config config;
  config.max_batch_total_tokens = 15;
  config.waiting_served_ratio = 0;
  config.order = OrderConfig{.kind = Kind::kVtc};
  const auto asked = [](std::int32_t step, std::int32_t prompt, std::int32_t output,
                        std::uint32_t tenant) {
    return Asked{.step = step, .prompt = prompt, .output = output, .tenant = tenant};
  };
  EXPECT_EQ(Decided(config, {.block_size = 1, .blocks = 15},
                    {asked(1, 4, 3, 0), asked(1, 4, 3, 0), asked(1, 4, 3, 0), asked(1, 4, 3, 0),
                     asked(3, 6, 2, 1), asked(3, 6, 2, 1)}),
            "it1: A:P4 B:P4 | free=3\n"
            "it2: A:D1 B:D1 | free=3\n"
            "it3: A:D1 B:D1 | free=3 | fin=[A,B] | freeA=15\n"
            "it4: E:P6 C:P4 | free=2\n"
            "it5: E:D1 C:D1 | free=2 | fin=[E] | freeA=9\n"
            "it6: F:P6 | free=2\n"
            "it7: C:D1 F:D1 | free=2 | fin=[C,F] | freeA=15\n"
            "it8: D:P4 | free=9\n"
            "it9: D:D1 | free=9\n"
            "it10: D:D1 | free=9 | fin=[D] | freeA=15\n");
}

// Tenant 0 wants each token 10 iterations after the one before, from iteration 11 on; tenant 1 from
// iteration 1 + 4 on. Tenant 2 has the tier of tenant 1.
TEST(OrderedQueueTest, EarliestDeadlineFirstGoesByTheTierOfTheTenant) {
  const OrderConfig order{.kind = Kind::kEdf,
                          .tiers = {{.ttft = Duration{10}, .tbt = Duration{10}},
                                    {.ttft = Duration{4}, .tbt = Duration{3}}}};
  const auto asked = [](std::uint32_t tenant) {
    return Asked{.step = 1, .prompt = 4, .output = 1, .tenant = tenant};
  };
  EXPECT_EQ(Decided(Core(order), {.blocks = 20}, {asked(0), asked(1), asked(2)}),
            "it1: B:P4 | free=19 | fin=[B] | freeA=20\n"
            "it2: C:P4 | free=19 | fin=[C] | freeA=20\n"
            "it3: A:P4 | free=19 | fin=[A] | freeA=20\n");
}

TEST(OrderedQueueTest, TheNextTokenIsDueByTheScheduleOfTheTier) {
  const OrderConfig order{
      .kind = Kind::kEdf,
      .tiers = {{.ttft = Duration{100}, .tbt = Duration{7}}, {.ttlt = Duration{1000}}},
      .token_time = Duration{10}};
  Sequence s;
  s.arrival = TimePoint{Duration{5}};
  s.prompt_tokens = s.known = 8;
  s.max_output_tokens = 50;
  EXPECT_EQ(NextTokenDue(order, s), TimePoint{Duration{105}});
  s.known = 8 + 3;
  EXPECT_EQ(NextTokenDue(order, s), TimePoint{Duration{126}}) << "the fourth token: 105 + 3 * 7";
  s.tenant = 1;
  s.predicted_output_tokens = 20;
  EXPECT_EQ(NextTokenDue(order, s), TimePoint{Duration{835}}) << "17 tokens of 10 before 1005";
}

}  // namespace
}  // namespace twin::testing
