#include "sched/engine.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/scripted_engine.h"

namespace twin::testing {
namespace {

class EngineTest : public ScriptedEngineTest {};

TEST_F(EngineTest, EmitsWhenAChunkReachesAllKnownTokensAndChangesPhaseThen) {
  Arrive(kA);
  const StepPlan* first = PlanRun(kA, 4);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->work, (std::vector<WorkItem>{{kA, 0, 4, 0, Phase::kPrefill, false}}));
  Finish(1);
  EXPECT_EQ(Of(kA).known, 6);
  const StepPlan* second = PlanRun(kA, 2);
  EXPECT_EQ(second->work, (std::vector<WorkItem>{{kA, 4, 2, 0, Phase::kPrefill, true}}));
  EXPECT_EQ(Of(kA).pending, 1);
  Finish(2);
  EXPECT_EQ(Of(kA).known, 7);
  EXPECT_EQ(Of(kA).pending, 0);
  const StepPlan* third = PlanRun(kA, 1);
  EXPECT_EQ(third->work, (std::vector<WorkItem>{{kA, 6, 1, 0, Phase::kDecode, true}}));
  EXPECT_EQ(third->totals.decode_items, 1);
  EXPECT_EQ(third->totals.decode_context_tokens, 7);
}

TEST_F(EngineTest, ShowsPredictionsToPoliciesThatSayTheyReadThem) {
  Request request;
  request.id = kA;
  request.prompt_tokens = 6;
  request.max_output_tokens = 9;
  request.predicted_output_tokens = 3;
  engine_->Handle(RequestArrived{request});
  (void)PlanRun(kA, 6);
  EXPECT_EQ(Of(kA).predicted_output_tokens, -1);
  PolicyTraits traits = Traits();
  traits.reads_predictions = true;
  Start(traits);
  engine_->Handle(RequestArrived{request});
  (void)PlanRun(kA, 6);
  EXPECT_EQ(Of(kA).predicted_output_tokens, 3);
}

TEST_F(EngineTest, SumsUpPrefillWorkAsTheCostModelsReadIt) {
  Arrive(kA);
  PlanRun(kA, 4);
  Finish(1);
  const StepTotals totals = PlanRun(kA, 2)->totals;
  EXPECT_EQ(totals.prefill_tokens, 2);
  EXPECT_EQ(totals.prefill_context_tokens, 6);
  EXPECT_EQ(totals.prefill_attention_pairs, 2 * 4 + 2 * 3 / 2);
  EXPECT_EQ(totals.emitting_items, 1);
}

TEST_F(EngineTest, TellsAllocationsInThePlanAndReleasesOfAFinishWithTheNextOne) {
  Arrive(kA);
  Arrive(kB);
  const StepPlan* first = PlanRun(kA, 6);
  using Kind = KvOperation::Kind;
  EXPECT_EQ(first->kv,
            (std::vector<KvOperation>{{Kind::kAllocate, kA, BlockId{0}, BlockId::kNone},
                                      {Kind::kAllocate, kA, BlockId{1}, BlockId::kNone}}));
  EXPECT_EQ(first->free_blocks, 4);
  Finish(1, {{kA, 1, FinishReason::kStop}});
  EXPECT_EQ(policy_->removed, std::vector<RequestId>{kA});
  EXPECT_FALSE(engine_->sequences().contains(kA));
  EXPECT_EQ(engine_->pool().free(), 6);
  const StepPlan* second = PlanRun(kB, 4);
  EXPECT_EQ(second->kv[0], (KvOperation{Kind::kRelease, kA, BlockId::kNone, BlockId::kNone}));
}

TEST_F(EngineTest, KeepsAReleaseForTheNextPlanWhenAPlanStaysEmpty) {
  policy_->wake_at = TimePoint{Duration{1'000'000}};
  Arrive(kA);
  Arrive(kB);
  PlanRun(kA, 6);
  Finish(1, {{kA, 1, FinishReason::kStop}});
  EXPECT_EQ(Plan(nullptr), nullptr);
  EXPECT_EQ(PlanRun(kB, 4)->kv[0].kind, KvOperation::Kind::kRelease);
}

TEST_F(EngineTest, AsksForAWakeUpOnlyWhereThePolicyPlansNothingAndWaits) {
  policy_->wake_at = TimePoint{Duration{1'000'000}};
  EXPECT_EQ(engine_->wake_at(), kTimeNever);
  Arrive(kA);
  EXPECT_EQ(Plan([](StepBuilder&) {}), nullptr);
  EXPECT_EQ(engine_->wake_at(), TimePoint{Duration{1'000'000}});
  PlanRun(kA, 6);
  EXPECT_EQ(engine_->wake_at(), kTimeNever);
}

TEST_F(EngineTest, ATokenThatReturnsAfterAPreemptionIsKnownButSettlesNothingElse) {
  PolicyTraits traits = Traits();
  traits.steps_in_flight_max = 2;
  traits.overlaps_own_steps = true;
  Start(traits);
  Arrive(kA);
  PlanRun(kA, 6);
  Plan([](StepBuilder& step) { step.PreemptByRecompute(kA); });
  EXPECT_EQ(Of(kA).stale_in_flight, 1);
  EXPECT_EQ(Of(kA).pending, 0);
  Finish(1);
  EXPECT_EQ(Of(kA).known, 7);
  EXPECT_EQ(Of(kA).stale_in_flight, 0);
  EXPECT_EQ(Of(kA).pending, 0);
  EXPECT_EQ(Of(kA).computed, 0);
  Finish(2);
  EXPECT_EQ(PlanRun(kA, 7)->work[0].phase, Phase::kPrefill);
}

TEST_F(EngineTest, ACancelledRequestLeavesAtOnceAndItsMemoryBehindTheStepInFlight) {
  Arrive(kA);
  Arrive(kB);
  PlanRun(kA, 6);
  engine_->Handle(RequestCancelled{kA});
  EXPECT_EQ(policy_->removed, std::vector<RequestId>{kA});
  EXPECT_EQ(engine_->census().running, 0);
  EXPECT_EQ(engine_->pool().free(), 4);
  Finish(1);
  EXPECT_EQ(engine_->pool().free(), 6);
  EXPECT_FALSE(engine_->sequences().contains(kA));
  engine_->Handle(RequestCancelled{kA});
  EXPECT_EQ(policy_->removed.size(), 1u);
}

TEST_F(EngineTest, WhereBlocksAreFreedInFlightThoseOfACancelledRequestComeBackAtOnce) {
  PolicyTraits traits = Traits();
  traits.frees_in_flight = true;
  Start(traits);
  Arrive(kA);
  Arrive(kB);
  PlanRun(kA, 6);
  engine_->Handle(RequestCancelled{kA});
  EXPECT_EQ(engine_->pool().free(), 6);
  Finish(1);
  EXPECT_EQ(engine_->pool().free(), 6);
  EXPECT_FALSE(engine_->sequences().contains(kA));
}

// With a step always in flight there is never a moment at which nothing of the request runs.
TEST_F(EngineTest, CancelsARequestThatAlwaysHasAStepInFlight) {
  PolicyTraits traits = Traits();
  traits.steps_in_flight_max = 2;
  traits.overlaps_own_steps = true;
  Start(traits);
  Arrive(kA);
  PlanRun(kA, 6);
  PlanRun(kA, 1);
  engine_->Handle(RequestCancelled{kA});
  Finish(1);
  EXPECT_EQ(engine_->pool().free(), 4);
  Finish(2);
  engine_->CheckDrained();
}

// Nobody but the cancellation itself can then collect the batch's memory.
TEST_F(EngineTest, CollectsDeferredReleasesOfACancellationBetweenSteps) {
  PolicyTraits traits = Traits();
  traits.defers_release = true;
  Start(traits);
  Arrive(kA);
  PlanRun(kA, 6);
  Finish(1);
  policy_->releases = {kA};
  engine_->Handle(RequestCancelled{kA});
  engine_->CheckDrained();
}

TEST_F(EngineTest, CancelsWaitingRequestsAndIgnoresUnknownOnes) {
  Arrive(kA);
  engine_->Handle(RequestCancelled{kB});
  engine_->Handle(RequestCancelled{kA});
  engine_->CheckDrained();
  EXPECT_EQ(engine_->census().waiting, 0);
}

TEST_F(EngineTest, PlansNoMoreThanMayBeInFlightOrAreAllowedPerInstant) {
  PolicyTraits traits = Traits();
  traits.steps_in_flight_max = 2;
  Start(traits, 1);
  Arrive(kA);
  Arrive(kB);
  EXPECT_NE(PlanRun(kA, 4), nullptr);
  EXPECT_EQ(PlanRun(kB, 4), nullptr);
  now_ += Duration{1};
  EXPECT_NE(PlanRun(kB, 4), nullptr);
  now_ += Duration{1};
  EXPECT_EQ(PlanRun(kA, 2), nullptr);
}

TEST_F(EngineTest, SwapsOutAndInTellingThePairs) {
  Arrive(kA);
  PlanRun(kA, 6);
  Finish(1);
  const StepPlan* out = Plan([](StepBuilder& step) { ASSERT_TRUE(step.SwapOut(kA)); });
  using Kind = KvOperation::Kind;
  EXPECT_EQ(out->kv, (std::vector<KvOperation>{{Kind::kSwapOut, kA, BlockId{0}, BlockId{0}},
                                               {Kind::kSwapOut, kA, BlockId{1}, BlockId{1}}}));
  EXPECT_EQ(engine_->census().swapped, 1);
  EXPECT_EQ(out->free_host_blocks, 0);
  Finish(2);
  const StepPlan* in = Plan([](StepBuilder& step) {
    ASSERT_TRUE(step.SwapIn(kA));
    Run(step, kA, 1);
  });
  EXPECT_EQ(in->kv[0], (KvOperation{Kind::kSwapIn, kA, BlockId{2}, BlockId{0}}));
  EXPECT_EQ(in->work[0].phase, Phase::kDecode);
  engine_->CheckMemory();
}

TEST_F(EngineTest, TakesAScheduleBack) {
  Arrive(kA);
  Arrive(kB);
  const StepPlan* plan = Plan([](StepBuilder& step) {
    Run(step, kA, 6);
    Run(step, kB, 4);
    step.Unschedule(kA);
  });
  EXPECT_EQ(plan->work.size(), 1u);
  EXPECT_EQ(plan->totals.prefill_tokens, 4);
  EXPECT_EQ(plan->totals.emitting_items, 0);
  EXPECT_EQ(Of(kA).computed, 0);
  EXPECT_EQ(Of(kA).pending, 0);
  EXPECT_EQ(Of(kA).in_flight, 0);
}

TEST_F(EngineTest, TheLongestContextIsFoundAgainWhenTheLongestItemIsTakenBack) {
  Arrive(kA);
  Arrive(kB);
  const StepPlan* plan = Plan([](StepBuilder& step) {
    Run(step, kA, 6);
    Run(step, kB, 4);
    EXPECT_EQ(step.plan().totals.prefill_context_max, 6);
    step.Unschedule(kA);
  });
  EXPECT_EQ(plan->totals.prefill_context_max, 4);
  EXPECT_EQ(plan->totals.decode_context_max, 0);
}

TEST_F(EngineTest, RejectsLongerPromptsThanAllowedBeforeThePolicyHearsOfThem) {
  EngineConfig config;
  config.kv = {.block_size = 4, .blocks = 6, .host_blocks = 0};
  config.prompt_tokens_max = 8;
  auto policy = std::make_unique<ScriptedPolicy>(Traits());
  ScriptedPolicy& scripted = *policy;
  Engine engine(config, std::move(policy));
  const auto arrive = [&](std::uint32_t id, std::int32_t prompt) {
    Request request;
    request.id = RequestId{id};
    request.prompt_tokens = prompt;
    request.max_output_tokens = 1;
    engine.Handle(RequestArrived{request});
  };
  arrive(0, 9);
  arrive(1, 8);
  arrive(2, 9);
  engine.Handle(RequestCancelled{RequestId{2}});
  const StepPlan* plan = engine.PlanStep(TimePoint{});
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->rejected,
            (std::vector<Rejection>{{RequestId{0}, RejectReason::kTooLongForModel}}));
  EXPECT_EQ(scripted.queued, std::vector<RequestId>{RequestId{1}});
  EXPECT_TRUE(scripted.removed.empty());
  EXPECT_EQ(engine.census().waiting, 1);
}

TEST_F(EngineTest, RejectsAWaitingRequestForGood) {
  Arrive(kA);
  const StepPlan* plan =
      Plan([](StepBuilder& step) { step.Reject(kA, RejectReason::kTooLargeForCache); });
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->rejected, (std::vector<Rejection>{{kA, RejectReason::kTooLargeForCache}}));
  Finish(1);
  engine_->CheckDrained();
}

// Prompt of 6. The second item computes token 6 and three drafts, of which one is accepted: tokens
// 7 and 8 are new, and what was computed behind token 7 is taken back.
TEST_F(EngineTest, TakesBackRejectedDrafts) {
  PolicyTraits traits = Traits();
  traits.drafts_max = 3;
  Start(traits);
  Arrive(kA);
  EXPECT_EQ(PlanRun(kA, 6)->totals.draft_items, 0);
  Finish(1, {{.request = kA, .emitted_tokens = 1, .new_drafts = 3}});
  EXPECT_EQ(Of(kA).drafts, 3);

  const StepPlan* plan = PlanRun(kA, 4);
  EXPECT_EQ(plan->work[0].drafts, 3);
  EXPECT_EQ(plan->totals.draft_tokens, 3);
  EXPECT_EQ(plan->totals.logit_rows(), 4);
  EXPECT_EQ(Of(kA).computed, 10);
  EXPECT_EQ(Of(kA).pending, 4);
  Finish(2, {{.request = kA, .emitted_tokens = 2, .accepted_drafts = 1, .new_drafts = 2}});
  EXPECT_EQ(Of(kA).known, 9);
  EXPECT_EQ(Of(kA).computed, 8);
  EXPECT_EQ(Of(kA).pending, 0);
  EXPECT_EQ(Of(kA).drafts, 2);
}

TEST_F(EngineTest, DropsDraftsForWhichAnItemIsTooShort) {
  PolicyTraits traits = Traits();
  traits.drafts_max = 3;
  Start(traits);
  Arrive(kA);
  PlanRun(kA, 6);
  Finish(1, {{.request = kA, .emitted_tokens = 1, .new_drafts = 3}});
  EXPECT_EQ(PlanRun(kA, 2)->work[0].drafts, 1);
  EXPECT_EQ(Of(kA).drafts, 0);
  // Expected of an item with drafts: all are rejected, and nothing is drafted.
  Finish(2);
  EXPECT_EQ(Of(kA).known, 8);
  EXPECT_EQ(Of(kA).computed, 7);
  EXPECT_EQ(PlanRun(kA, 1)->work[0].drafts, 0);
}

}  // namespace
}  // namespace twin::testing
