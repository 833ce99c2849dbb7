// The gates of the judge, on runs written by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "run/judge/gates.h"

namespace twin::run {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// `count` requests with prompts of 100, 200, ... tokens that all take `e2e_s`.
JudgedRun RunOf(int count, double e2e_s) {
  JudgedRun run;
  for (int i = 1; i <= count; ++i) {
    run.requests.push_back({.name = {.turn = i},
                            .offered = true,
                            .status = RequestStatus::kCompleted,
                            .reject_reason = {},
                            .ttft_s = e2e_s / 2,
                            .e2e_s = e2e_s,
                            .longest_gap_s = 0.1,
                            .prompt_tokens = 100 * i,
                            .output_tokens = 10});
  }
  run.offered = count;
  return run;
}

TEST(ServedGateTest, CountsWhoIsRefusedAndSaysWhatTheyHaveInCommon) {
  const JudgedRun reference = RunOf(10, 1);
  JudgedRun run = reference;
  EXPECT_FALSE(CheckServed(run, reference));
  for (const std::size_t i : {8u, 9u}) run.requests[i].status = RequestStatus::kRejected;
  const auto failure = CheckServed(run, reference);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->gate, "G4");
  EXPECT_EQ(failure->reason,
            "2 of 10 requests were refused (the reference: 0), all of 900 prompt tokens or more");
}

TEST(ServedGateTest, ForgivesWhatTheReferenceRefusesToo) {
  JudgedRun reference = RunOf(10, 1);
  reference.requests[3].status = RequestStatus::kRejected;
  EXPECT_FALSE(CheckServed(reference, reference));
  JudgedRun run = RunOf(10, 1);
  EXPECT_FALSE(CheckServed(run, reference));
  run.requests[4].status = RequestStatus::kCancelled;
  EXPECT_THAT(CheckServed(run, reference)->reason,
              StartsWith("1 of 10 requests did not complete (the reference: 1)"));
}

// Two sessions of two turns. In the run the second session's answer came earlier, so that its
// second turn has the id that the first session's has in the reference.
JudgedRun SessionsOf(std::initializer_list<RequestName> names) {
  JudgedRun run = RunOf(static_cast<int>(names.size()), 1);
  std::size_t i = 0;
  for (const RequestName& name : names) {
    run.requests[i].name = name;
    run.requests[i++].prompt_tokens = static_cast<std::int32_t>(100 * name.session) + name.turn;
  }
  return run;
}

TEST(RequestPairTest, RequestsOfTwoRunsAreComparedByWhatTheyAreAndNotByTheirIds) {
  const JudgedRun reference = SessionsOf({{0, 1, 0}, {0, 2, 0}, {0, 1, 1}, {0, 2, 1}});
  JudgedRun run = SessionsOf({{0, 1, 0}, {0, 2, 0}, {0, 2, 1}, {0, 1, 1}});
  EXPECT_FALSE(CheckLengths(run, reference));
  // Session 1's second turn, which has id 3 here and id 2 there, starves.
  run.requests[3].e2e_s = 50;
  EXPECT_THAT(CheckNobodyStarves(run, reference)->reason,
              HasSubstr("one of 101 prompt tokens takes 50.0 s, with the reference 1.0 s"));
  run.requests[3].status = RequestStatus::kRejected;
  EXPECT_THAT(CheckServed(run, reference)->reason, HasSubstr("1 of 4 requests were refused"));
}

TEST(RequestPairTest, ListsWhoCameToOneRunAlone) {
  const JudgedRun reference = SessionsOf({{0, 1, 0}, {0, 2, 0}});
  const JudgedRun run = SessionsOf({{0, 1, 0}, {0, 1, 1}});
  const std::vector<RequestPair> pairs = PairRequests(run, reference);
  ASSERT_EQ(pairs.size(), 3u);
  EXPECT_EQ(pairs[0].one, &run.requests[0]);
  EXPECT_EQ(pairs[0].other, &reference.requests[0]);
  EXPECT_EQ(pairs[1].one, nullptr);
  EXPECT_EQ(pairs[2].one, &run.requests[1]);
  EXPECT_EQ(pairs[2].other, nullptr);
}

TEST(ServedGateTest, NobodyWhomTheReferenceWasNotAskedIsRefusedForLoad) {
  const JudgedRun reference = SessionsOf({{0, 1, 0}, {0, 2, 0}});
  JudgedRun run = SessionsOf({{0, 1, 0}, {0, 1, 1}});
  run.requests[1].status = RequestStatus::kRejected;
  run.requests[1].reject_reason = RejectReason::kTooLongForModel;  // which the engine checks
  EXPECT_FALSE(CheckServed(run, reference));
  run.requests[1].reject_reason = RejectReason::kOverloaded;
  EXPECT_EQ(CheckServed(run, reference)->gate, "G4");
}

TEST(LengthGateTest, RequestsGetAsManyTokensAsWithTheReference) {
  const JudgedRun reference = RunOf(4, 1);
  JudgedRun run = reference;
  EXPECT_FALSE(CheckLengths(run, reference));
  run.requests[1].output_tokens = 9;
  run.requests[2].output_tokens = 3;
  const auto failure = CheckLengths(run, reference);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->gate, "G4");
  EXPECT_EQ(failure->reason,
            "2 of 4 requests have other lengths than with the reference: one of 200 prompt tokens "
            "gets 9 tokens, there one of 200 gets 10");
  // A request that was not served has no length: CheckServed() is for that.
  run = reference;
  run.requests[1].status = RequestStatus::kRejected;
  run.requests[1].output_tokens = 0;
  EXPECT_FALSE(CheckLengths(run, reference));
}

TEST(StarvationGateTest, AllowsTenTimesTheReferenceAndThirtySecondsMore) {
  const JudgedRun reference = RunOf(4, 2);
  JudgedRun run = reference;
  run.requests[2].e2e_s = 50;  // 10 * 2 + 30
  EXPECT_FALSE(CheckNobodyStarves(run, reference));
  run.requests[2].e2e_s = 50.1;
  EXPECT_THAT(CheckNobodyStarves(run, reference)->reason,
              HasSubstr("one of 300 prompt tokens takes 50.1 s, with the reference 2.0 s"));
}

TEST(LimitGateTest, LetsAPolicyPlanWithinTheSystemsLimitsOnly) {
  PolicyTraits system;
  system.tokens_per_step_max = 2048;
  system.sequences_per_step_max = 256;
  PolicyTraits traits = system;
  EXPECT_FALSE(CheckTraits(traits, system));
  for (const int tokens : {0, 2049}) {
    traits.tokens_per_step_max = tokens;
    EXPECT_EQ(CheckTraits(traits, system)->gate, "G6") << tokens;
  }
  traits = system;
  traits.step_engine = "tgis";
  EXPECT_THAT(CheckTraits(traits, system)->reason, HasSubstr("step_engine is tgis"));
  traits = system;
  traits.steps_in_flight_max = 2;
  EXPECT_EQ(CheckTraits(traits, system)->gate, "G6");
}

TEST(LimitGateTest, FindsStepsWithoutMemoryOrMeasurements) {
  PolicyTraits system;
  system.tokens_per_step_max = 2048;
  system.sequences_per_step_max = 256;
  JudgedRun run = RunOf(1, 1);
  const JudgedRun reference = run;
  run.largest_step_tokens = 2048;
  run.largest_step_sequences = 256;
  run.outside_share = 0.01;
  EXPECT_FALSE(CheckSteps(run, reference, system));
  run.outside_share = 0.011;
  EXPECT_THAT(CheckSteps(run, reference, system)->reason, StartsWith("1.1 % of the time"));
  run.largest_step_sequences = 257;
  EXPECT_THAT(CheckSteps(run, reference, system)->reason, HasSubstr("257 sequences"));
  run.largest_step_tokens = 2049;
  EXPECT_THAT(CheckSteps(run, reference, system)->reason, HasSubstr("2049 tokens"));
}

TEST(ClassMeterTest, ListsWhoPaysAndRefusesWhoPaysTooMuch) {
  const JudgedRun reference = RunOf(100, 1);
  JudgedRun run = reference;
  for (std::size_t i = 75; i < 100; ++i) run.requests[i].e2e_s = 1.2;  // the longest quartile
  ClassMeter meter;
  meter.Add(run, reference);
  EXPECT_FALSE(meter.Check());
  const std::vector<Trade> trades = meter.Trades();
  ASSERT_EQ(trades.size(), 2u);
  EXPECT_THAT((std::vector{trades[0].requests, trades[1].requests}),
              ::testing::UnorderedElementsAre("prompt_q4", "prompt_top5"));
  EXPECT_NEAR(trades[0].log_ratio, std::log(1.2), 1e-12);

  for (std::size_t i = 75; i < 100; ++i) run.requests[i].e2e_s = 1.9;
  meter.Add(run, reference);  // on average sqrt(1.2 * 1.9) = 1.51 times as long
  ASSERT_TRUE(meter.Check());
  EXPECT_THAT(meter.Check()->reason, HasSubstr("take 1.51 times as long"));
}

TEST(ClassMeterTest, LooksAtTenantsIfThereAreSeveral) {
  JudgedRun reference = RunOf(10, 1);
  reference.requests[0].name.tenant = 1;
  JudgedRun run = reference;
  run.requests[0].e2e_s = 2;
  ClassMeter meter;
  meter.Add(run, reference);
  EXPECT_EQ(meter.Check()->gate, "G5");
  EXPECT_THAT(meter.Trades(), ::testing::Contains(::testing::Field(&Trade::requests, "tenant_1")));
}

TEST(UtilityTest, EveryTermCountsAndLatenciesAreLogarithms) {
  // Means of ln 4, ln 2 and the longest gap of 0.1 s: -(0.5 ln 4 + 0.3 ln 2 + 0.2 ln 0.1).
  EXPECT_NEAR(Utility(RunOf(10, 4)),
              -(0.5 * std::log(4.0) + 0.3 * std::log(2.0) + 0.2 * std::log(0.1)), 1e-12);
  // Twice the times of all: less by ln 2 times the weights of what has doubled.
  EXPECT_NEAR(Utility(RunOf(10, 4)) - Utility(RunOf(10, 8)), 0.8 * std::log(2.0), 1e-12);
}

}  // namespace
}  // namespace twin::run
