#include "sched/invariant.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/scripted_engine.h"

namespace twin::testing {
namespace {

class InvariantTest : public ScriptedEngineTest {};

TEST_F(InvariantTest, I1TheBudgetIsKept) {
  PolicyTraits traits = Traits();
  traits.tokens_per_step_max = 5;
  Start(traits);
  Arrive(kA);
  ExpectBreach(1, "step 1", [](StepBuilder& step) { Run(step, kA, 6); });
}

TEST_F(InvariantTest, I1TheNumberOfSequencesIsKept) {
  PolicyTraits traits = Traits();
  traits.sequences_per_step_max = 1;
  Start(traits);
  Arrive(kA);
  Arrive(kB);
  ExpectBreach(1, "step 1", [](StepBuilder& step) {
    Run(step, kA, 4);
    Run(step, kB, 4);
  });
}

TEST_F(InvariantTest, I2NothingUnknownIsComputed) {
  Arrive(kA);
  Arrive(kB);
  ExpectBreach(2, "step 1, request 1", [](StepBuilder& step) { Run(step, kB, 7); });
}

TEST_F(InvariantTest, I2AnItemComputesSomething) {
  Arrive(kA);
  ExpectBreach(2, "step 1, request 0", [](StepBuilder& step) { Run(step, kA, 0); });
}

TEST_F(InvariantTest, I3AnItemEmitsExactlyWhenNothingKnownIsLeft) {
  Arrive(kA);
  for (std::int32_t end = 1; end <= 6; ++end) {
    const StepPlan* plan = PlanRun(kA, 1);
    EXPECT_EQ(plan->work[0].emits, end == 6);
    Finish(static_cast<std::uint64_t>(end));
  }
}

TEST_F(InvariantTest, I4BlocksCoverWhatIsComputed) {
  Arrive(kA);
  ExpectBreach(4, "step 1, request 0", [](StepBuilder& step) {
    step.Admit(kA);
    ASSERT_TRUE(step.Grow(kA, 4));
    step.Schedule(kA, 5);
  });
}

TEST_F(InvariantTest, I5NoRequestTwiceInAStep) {
  Arrive(kA);
  ExpectBreach(5, "step 1, request 0", [](StepBuilder& step) {
    Run(step, kA, 2);
    Run(step, kA, 2);
  });
}

TEST_F(InvariantTest, I5NoRequestInTwoStepsUnlessDeclared) {
  PolicyTraits traits = Traits();
  traits.steps_in_flight_max = 2;
  Start(traits);
  Arrive(kA);
  PlanRun(kA, 2);
  ExpectBreach(5, "step 2, request 0", [](StepBuilder& step) { Run(step, kA, 2); });
}

TEST_F(InvariantTest, I6NoVictimIsInTheStep) {
  Arrive(kA);
  ExpectBreach(6, "step 1, request 0", [](StepBuilder& step) {
    Run(step, kA, 2);
    step.PreemptByRecompute(kA);
  });
}

TEST_F(InvariantTest, I7ReservingPoliciesDoNotPreempt) {
  PolicyTraits traits = Traits();
  traits.preempts = false;
  Start(traits);
  Arrive(kA);
  PlanRun(kA, 6);
  Finish(1);
  ExpectBreach(7, "step 2, request 0", [](StepBuilder& step) { step.PreemptByRecompute(kA); });
}

TEST_F(InvariantTest, I7ReservingPoliciesDoNotSwap) {
  PolicyTraits traits = Traits();
  traits.preempts = false;
  Start(traits);
  Arrive(kA);
  PlanRun(kA, 6);
  Finish(1);
  ExpectBreach(7, "step 2, request 0", [](StepBuilder& step) { EXPECT_FALSE(step.SwapOut(kA)); });
}

TEST_F(InvariantTest, I8FirstAdmissionsFollowArrival) {
  Arrive(kA);
  Arrive(kB);
  ExpectBreach(8, "step 1, request 0", [](StepBuilder& step) {
    Run(step, kB, 4);
    Run(step, kA, 4);
  });
}

TEST_F(InvariantTest, I9WorkThatWaitsIsPlanned) {
  Arrive(kA);
  ExpectBreach(9, "step 1", [](StepBuilder&) {});
  policy_->wake_at = TimePoint{Duration{1'000'000}};
  EXPECT_EQ(Plan([](StepBuilder&) {}), nullptr);
}

TEST_F(InvariantTest, I9NobodyWaitsForATimeThatIsPast) {
  Arrive(kA);
  policy_->wake_at = kTimeZero;
  ExpectBreach(9, "step 1", [](StepBuilder&) {});
}

TEST_F(InvariantTest, I11EveryRequestLeaves) {
  Arrive(kA);
  PlanRun(kA, 6);
  Finish(1);
  try {
    engine_->CheckDrained();
    ADD_FAILURE() << "a request is left";
  } catch (const InvariantViolation& violation) {
    EXPECT_EQ(violation.number(), 11);
    EXPECT_NE(std::string(violation.what()).find("request 0"), std::string::npos);
  }
}

// Two drafts are offered; the item may take one known token and both.
TEST_F(InvariantTest, I2NoMoreDraftsThanOffered) {
  PolicyTraits traits = Traits();
  traits.drafts_max = 3;
  Start(traits);
  Arrive(kA);
  PlanRun(kA, 6);
  Finish(1, {{.request = kA, .emitted_tokens = 1, .new_drafts = 2}});
  ExpectBreach(2, "step 2, request 0", [](StepBuilder& step) { Run(step, kA, 4); });
}

TEST_F(InvariantTest, I13PaddingIsNoLongerThanDrafts) {
  PolicyTraits traits = Traits();
  traits.drafts_max = 3;
  Start(traits);
  Arrive(kA);
  ExpectBreach(13, "step 1, request 0", [](StepBuilder& step) {
    step.Admit(kA);
    step.PadWithDrafts(kA, 4);
  });
}

// The cache has 6 blocks of 4 tokens, which hold 6 + 9 tokens, and a request may have 15.
TEST_F(InvariantTest, I15APolicyFromOutsideRejectsForTrueReasons) {
  PolicyTraits traits = Traits();
  traits.context_tokens_max = 15;
  for (const RejectReason reason :
       {RejectReason::kTooLongForModel, RejectReason::kTooLargeForCache}) {
    Start(traits, 0, true);
    Arrive(kA);
    ExpectBreach(15, "step 1, request 0", [reason](StepBuilder& step) { step.Reject(kA, reason); });
    Start(traits, 0, true);
    Arrive(kA, 16);  // with its 9 tokens of output 7 blocks
    EXPECT_EQ(Plan([reason](StepBuilder& step) { step.Reject(kA, reason); })->rejected.size(), 1U);
  }
  Start(traits, 0, true);
  Arrive(kA);
  EXPECT_EQ(
      Plan([](StepBuilder& step) { step.Reject(kA, RejectReason::kOverloaded); })->rejected.size(),
      1U);
}

}  // namespace
}  // namespace twin::testing
