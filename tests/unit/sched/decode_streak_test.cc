// Decode streaks: what they plan, and when the counters of the sequences are right.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "sched/engine.h"
#include "sched/policy/vllm_v1.h"

namespace twin {
namespace {

constexpr RequestId kA{0};
constexpr RequestId kB{1};

class DecodeStreakTest : public ::testing::Test {
 protected:
  // Blocks of 4 tokens.
  DecodeStreakTest()
      : engine_(EngineConfig{.kv = {.block_size = 4, .blocks = 20}},
                std::make_unique<VllmV1Policy>(VllmV1Config{.max_model_len = 1000}, 20)) {}

  void Arrive(RequestId id, std::int32_t prompt, std::int32_t max_output) {
    Request request;
    request.id = id;
    request.prompt_tokens = prompt;
    request.max_output_tokens = max_output;
    engine_.Handle(RequestArrived{request});
  }

  // The next step, which returns at once.
  StepPlan Step(const std::vector<ItemOutcome>& outcomes = {}) {
    const StepPlan plan = *engine_.PlanStep(kTimeZero);
    engine_.Handle(StepFinished{plan.id, kTimeZero, outcomes, {}});
    return plan;
  }

  Engine engine_;
};

// Prompts of 3 and 6 tokens: after the prefill, step k computes position 1 + k of A and 4 + k of B.
// A takes a block for positions 4, 8, ...; B for 8, 12, ...
TEST_F(DecodeStreakTest, EachStepIsTheOneBeforeOneTokenLater) {
  Arrive(kA, 3, 100);
  Arrive(kB, 6, 100);
  Step();
  for (std::int32_t k = 2; k <= 12; ++k) {
    const StepPlan plan = Step();
    ASSERT_EQ(plan.work, (std::vector<WorkItem>{{kA, 1 + k, 1, 0, Phase::kDecode, true},
                                                {kB, 4 + k, 1, 0, Phase::kDecode, true}}));
    EXPECT_EQ(plan.totals.decode_items, 2);
    EXPECT_EQ(plan.totals.decode_context_tokens, (2 + k) + (5 + k));
    EXPECT_EQ(plan.totals.decode_context_max, 5 + k);
    std::vector<RequestId> growing;
    for (const KvOperation& operation : plan.kv) growing.push_back(operation.request);
    std::vector<RequestId> expected;
    if ((1 + k) % 4 == 0) expected.push_back(kA);
    if ((4 + k) % 4 == 0) expected.push_back(kB);
    EXPECT_EQ(growing, expected) << "step " << k;
  }
  engine_.CheckMemory();
}

TEST_F(DecodeStreakTest, CountersAreRightWhenSomebodyLooks) {
  Arrive(kA, 3, 100);
  for (int step = 1; step <= 6; ++step) Step();
  const Sequence& s = engine_.sequences()[kA];
  EXPECT_EQ(s.known, 3 + 6);
  EXPECT_EQ(s.computed, 3 + 5);
  EXPECT_EQ(s.pending, 0);
  EXPECT_EQ(s.in_flight, 0);
  EXPECT_EQ(s.last_step, StepId{6});
  // The policy goes on from there.
  EXPECT_EQ(Step().work, (std::vector<WorkItem>{{kA, 8, 1, 0, Phase::kDecode, true}}));
}

TEST_F(DecodeStreakTest, AnEndAndAnArrivalEndIt) {
  Arrive(kA, 3, 100);
  Arrive(kB, 6, 100);
  for (int step = 1; step <= 5; ++step) Step();
  EXPECT_EQ(Step({{kA, 1, FinishReason::kStop}}).work.size(), 2u);
  EXPECT_EQ(Step().work, (std::vector<WorkItem>{{kB, 11, 1, 0, Phase::kDecode, true}}));
  Step();
  Step();
  constexpr RequestId kC{2};
  Arrive(kC, 2, 100);
  EXPECT_EQ(Step().work, (std::vector<WorkItem>{{kB, 14, 1, 0, Phase::kDecode, true},
                                                {kC, 0, 2, 0, Phase::kPrefill, true}}));
}

// B ends with step 4; the blocks that it held are given back with step 5, in which A goes on.
TEST_F(DecodeStreakTest, GoesOnWithoutARequestThatHasEnded) {
  Arrive(kA, 3, 100);
  Arrive(kB, 6, 100);
  for (int step = 1; step <= 3; ++step) Step();
  Step({{kB, 1, FinishReason::kStop}});
  const StepPlan plan = Step();
  EXPECT_EQ(plan.work, (std::vector<WorkItem>{{kA, 6, 1, 0, Phase::kDecode, true}}));
  ASSERT_EQ(plan.kv.size(), 1u);
  EXPECT_EQ(plan.kv[0].kind, KvOperation::Kind::kRelease);
  EXPECT_EQ(plan.kv[0].request, kB);
  EXPECT_FALSE(plan.repeats.is_set);
  EXPECT_TRUE(Step().repeats.is_set);
  engine_.CheckMemory();
}

// After step 2 a part of three steps: they compute positions 4, 5 and 6 of A, whose second block
// begins with position 4, and the plan that is in flight then is that of step 5.
TEST_F(DecodeStreakTest, PlansSeveralStepsInOnePiece) {
  Arrive(kA, 3, 9);
  Step();
  EXPECT_EQ(engine_.StreakStepsLeft(), 0);  // nothing is in flight
  const StepPlan second = *engine_.PlanStep(kTimeZero);
  // The prefill gave one of 9 tokens, and step 2 will give one.
  EXPECT_EQ(engine_.StreakStepsLeft(), 7);
  StreakPart part;
  for (int i = 1; i <= 3; ++i) part.moments.push_back({.now = TimePoint{Duration{i}}});
  engine_.Continue(part);
  EXPECT_EQ(part.first_launched, StepId{3});
  EXPECT_EQ(part.first_totals.decode_context_tokens, second.totals.decode_context_tokens + 1);
  ASSERT_EQ(part.kv.size(), 1u);
  EXPECT_EQ(part.moments[0].kv_end, 1u);
  EXPECT_EQ(part.moments[0].free_blocks, second.free_blocks - 1);
  EXPECT_EQ(part.moments[2].kv_end, 1u);
  const StepPlan& latest = engine_.LatestPlan();
  EXPECT_EQ(latest.id, StepId{5});
  EXPECT_EQ(latest.work, (std::vector<WorkItem>{{kA, 6, 1, 0, Phase::kDecode, true}}));
  EXPECT_TRUE(latest.kv.empty());
  EXPECT_EQ(engine_.StreakStepsLeft(), 4);
  const Sequence& s = engine_.sequences()[kA];
  EXPECT_EQ(s.known, 3 + 4);
  EXPECT_EQ(s.computed, 7);
  EXPECT_EQ(s.pending, 1);
  EXPECT_EQ(s.last_step, StepId{5});
}

// 20 blocks, of which A holds 1 and B 2: with 17 free ones, each of the two can take 8.
TEST_F(DecodeStreakTest, OffersNoMoreStepsThanItsBlocksSufficeFor) {
  Arrive(kA, 3, 500);
  Arrive(kB, 6, 500);
  Step();
  (void)engine_.PlanStep(kTimeZero);
  EXPECT_EQ(engine_.StreakStepsLeft(), 8 * 4);
}

TEST_F(DecodeStreakTest, AnOutputWithoutLimitDoesNotOverflow) {
  Arrive(kA, 3, std::numeric_limits<std::int32_t>::max());
  Step();
  for (std::int32_t k = 2; k <= 6; ++k) EXPECT_EQ(Step().work.front().start, 1 + k);
}

// vLLM V1 that counts how often it was asked to continue a streak.
class ContinuedPolicy final : public Policy {
 public:
  ContinuedPolicy(std::int32_t blocks, int& continued)
      : inner_(VllmV1Config{.max_model_len = 1000}, blocks), continued_(continued) {}
  [[nodiscard]] const PolicyTraits& traits() const override { return inner_.traits(); }
  void Enqueue(const Sequence& sequence) override { inner_.Enqueue(sequence); }
  void Remove(const Sequence& sequence) override { inner_.Remove(sequence); }
  void StepReturned(const StepPlan& plan) override { inner_.StepReturned(plan); }
  void Plan(StepBuilder& step) override { inner_.Plan(step); }
  [[nodiscard]] std::optional<DecodeLimits> DecodeStreakLimits() const override {
    return inner_.DecodeStreakLimits();
  }
  [[nodiscard]] bool ContinueDecodeStreak(StepBuilder& /*step*/) override {
    ++continued_;
    return true;
  }

 private:
  VllmV1Policy inner_;
  int& continued_;
};

// Two prompts of one token in blocks of 4. The streak begins with step 2; step 5 begins a block in
// both, and one is free.
TEST(DecodeStreakBlocksTest, APolicyIsNotAskedToContinueWhereBlocksRunShort) {
  int continued = 0;
  Engine engine({.kv = {.block_size = 4, .blocks = 3}},
                std::make_unique<ContinuedPolicy>(3, continued));
  for (const RequestId id : {kA, kB}) {
    Request request;
    request.id = id;
    request.prompt_tokens = 1;
    request.max_output_tokens = 9;
    engine.Handle(RequestArrived{request});
  }
  std::vector<std::size_t> items;
  std::vector<int> asked;
  for (int step = 1; step <= 5; ++step) {
    const StepPlan plan = *engine.PlanStep(kTimeZero);
    items.push_back(plan.work.size());
    engine.Handle(StepFinished{plan.id, kTimeZero, {}, {}});
    asked.push_back(continued);
  }
  EXPECT_EQ(items, (std::vector<std::size_t>{2, 2, 2, 2, 1}));  // B is preempted
  EXPECT_EQ(asked, (std::vector<int>{0, 1, 2, 3, 3}));
}

}  // namespace
}  // namespace twin
