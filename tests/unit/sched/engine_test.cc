#include "sched/engine.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sched/invariant.h"

namespace twin {
namespace {

using Rule = std::function<void(StepBuilder&)>;

constexpr RequestId kA{0};
constexpr RequestId kB{1};

PolicyTraits Traits() {
  PolicyTraits traits;
  traits.name = "scripted";
  return traits;
}

// Decides whatever the test says; the test breaks one promise at a time.
class ScriptedPolicy final : public Policy {
 public:
  explicit ScriptedPolicy(const PolicyTraits& traits) : traits_(traits) {}

  [[nodiscard]] const PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const Sequence& sequence) override { queued.push_back(sequence.id); }
  void Remove(const Sequence& sequence) override { removed.push_back(sequence.id); }
  void CollectReleases(std::vector<RequestId>& finished) override { finished.swap(releases); }
  void Plan(StepBuilder& step) override {
    if (rule) rule(step);
  }
  [[nodiscard]] bool Waits() const override { return waits; }

  Rule rule;
  bool waits = false;
  std::vector<RequestId> queued;
  std::vector<RequestId> removed;
  std::vector<RequestId> releases;

 private:
  PolicyTraits traits_;
};

// An engine with 6 blocks of 4 tokens and 2 host blocks under a scripted policy.
class EngineTest : public ::testing::Test {
 protected:
  EngineTest() { Start(Traits()); }

  void Start(const PolicyTraits& traits, std::int32_t plans_per_instant_max = 0) {
    auto policy = std::make_unique<ScriptedPolicy>(traits);
    policy_ = policy.get();
    EngineConfig config;
    config.kv = {.block_size = 4, .blocks = 6, .host_blocks = 2};
    config.plans_per_instant_max = plans_per_instant_max;
    engine_ = std::make_unique<Engine>(config, std::move(policy));
  }

  void Arrive(RequestId id, std::int32_t prompt = 6) {
    Request request;
    request.id = id;
    request.prompt_tokens = prompt;
    request.max_output_tokens = 9;
    engine_->Handle(RequestArrived{request});
  }

  const StepPlan* Plan(Rule rule) {
    policy_->rule = std::move(rule);
    return engine_->PlanStep(now_);
  }

  // Admits, takes blocks and computes the next tokens.
  static void Run(StepBuilder& step, RequestId id, std::int32_t tokens) {
    if (step.sequence(id).state == SequenceState::kWaiting) step.Admit(id);
    ASSERT_TRUE(step.Grow(id, step.sequence(id).computed + tokens));
    step.Schedule(id, tokens);
  }

  const StepPlan* PlanRun(RequestId id, std::int32_t tokens) {
    return Plan([=](StepBuilder& step) { Run(step, id, tokens); });
  }

  void Finish(std::uint64_t step, const std::vector<ItemOutcome>& outcomes = {}) {
    engine_->Handle(StepFinished{StepId{step}, now_, outcomes, {}});
  }

  const Sequence& Of(RequestId id) const { return engine_->sequences()[id]; }

  // Planning by `rule` must break the invariant, and say where.
  void ExpectBreach(int number, const std::string& place, Rule rule) {
    try {
      Plan(std::move(rule));
      ADD_FAILURE() << "I" << number << " was not noticed";
    } catch (const InvariantViolation& violation) {
      EXPECT_EQ(violation.number(), number);
      const std::string start = "invariant I" + std::to_string(number) + " broken in " + place;
      EXPECT_EQ(std::string(violation.what()).substr(0, start.size()), start);
    }
  }

  ScriptedPolicy* policy_ = nullptr;
  std::unique_ptr<Engine> engine_;
  TimePoint now_ = kTimeZero;
};

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
  policy_->waits = true;
  Arrive(kA);
  Arrive(kB);
  PlanRun(kA, 6);
  Finish(1, {{kA, 1, FinishReason::kStop}});
  EXPECT_EQ(Plan(nullptr), nullptr);
  EXPECT_EQ(PlanRun(kB, 4)->kv[0].kind, KvOperation::Kind::kRelease);
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

TEST_F(EngineTest, I1TheBudgetIsKept) {
  PolicyTraits traits = Traits();
  traits.tokens_per_step_max = 5;
  Start(traits);
  Arrive(kA);
  ExpectBreach(1, "step 1", [](StepBuilder& step) { Run(step, kA, 6); });
}

TEST_F(EngineTest, I1TheNumberOfSequencesIsKept) {
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

TEST_F(EngineTest, I2NothingUnknownIsComputed) {
  Arrive(kA);
  Arrive(kB);
  ExpectBreach(2, "step 1, request 1", [](StepBuilder& step) { Run(step, kB, 7); });
}

TEST_F(EngineTest, I2AnItemComputesSomething) {
  Arrive(kA);
  ExpectBreach(2, "step 1, request 0", [](StepBuilder& step) { Run(step, kA, 0); });
}

TEST_F(EngineTest, I3AnItemEmitsExactlyWhenNothingKnownIsLeft) {
  Arrive(kA);
  for (std::int32_t end = 1; end <= 6; ++end) {
    const StepPlan* plan = PlanRun(kA, 1);
    EXPECT_EQ(plan->work[0].emits, end == 6);
    Finish(static_cast<std::uint64_t>(end));
  }
}

TEST_F(EngineTest, I4BlocksCoverWhatIsComputed) {
  Arrive(kA);
  ExpectBreach(4, "step 1, request 0", [](StepBuilder& step) {
    step.Admit(kA);
    ASSERT_TRUE(step.Grow(kA, 4));
    step.Schedule(kA, 5);
  });
}

TEST_F(EngineTest, I5NoRequestTwiceInAStep) {
  Arrive(kA);
  ExpectBreach(5, "step 1, request 0", [](StepBuilder& step) {
    Run(step, kA, 2);
    Run(step, kA, 2);
  });
}

TEST_F(EngineTest, I5NoRequestInTwoStepsUnlessDeclared) {
  PolicyTraits traits = Traits();
  traits.steps_in_flight_max = 2;
  Start(traits);
  Arrive(kA);
  PlanRun(kA, 2);
  ExpectBreach(5, "step 2, request 0", [](StepBuilder& step) { Run(step, kA, 2); });
}

TEST_F(EngineTest, I6NoVictimIsInTheStep) {
  Arrive(kA);
  ExpectBreach(6, "step 1, request 0", [](StepBuilder& step) {
    Run(step, kA, 2);
    step.PreemptByRecompute(kA);
  });
}

TEST_F(EngineTest, I7ReservingPoliciesDoNotPreempt) {
  PolicyTraits traits = Traits();
  traits.preempts = false;
  Start(traits);
  Arrive(kA);
  PlanRun(kA, 6);
  Finish(1);
  ExpectBreach(7, "step 2, request 0", [](StepBuilder& step) { step.PreemptByRecompute(kA); });
}

TEST_F(EngineTest, I7ReservingPoliciesDoNotSwap) {
  PolicyTraits traits = Traits();
  traits.preempts = false;
  Start(traits);
  Arrive(kA);
  PlanRun(kA, 6);
  Finish(1);
  ExpectBreach(7, "step 2, request 0", [](StepBuilder& step) { EXPECT_FALSE(step.SwapOut(kA)); });
}

TEST_F(EngineTest, I8FirstAdmissionsFollowArrival) {
  Arrive(kA);
  Arrive(kB);
  ExpectBreach(8, "step 1, request 0", [](StepBuilder& step) {
    Run(step, kB, 4);
    Run(step, kA, 4);
  });
}

TEST_F(EngineTest, I9WorkThatWaitsIsPlanned) {
  Arrive(kA);
  ExpectBreach(9, "step 1", [](StepBuilder&) {});
  policy_->waits = true;
  EXPECT_EQ(Plan([](StepBuilder&) {}), nullptr);
}

TEST_F(EngineTest, I11EveryRequestLeaves) {
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

TEST_F(EngineTest, RejectsAWaitingRequestForGood) {
  Arrive(kA);
  const StepPlan* plan =
      Plan([](StepBuilder& step) { step.Reject(kA, RejectReason::kTooLargeForCache); });
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->rejected, (std::vector<Rejection>{{kA, RejectReason::kTooLargeForCache}}));
  Finish(1);
  engine_->CheckDrained();
}

}  // namespace
}  // namespace twin
