#include "run/record/request_tracker.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

#include "tests/support/scripted_run.h"

namespace twin {
namespace {

using testing::At;
using testing::Decode;
using testing::Last;
using testing::Prefill;
using testing::R;
using testing::ScriptedRun;

// Keeps everything that it is told.
class Listener : public RunListener {
 public:
  void OnGaps(TimePoint /*now*/, Duration gap, std::int64_t count) override {
    gaps.emplace_back(Milliseconds(gap), count);
  }
  void OnStepEnded(const EndedStep& step) override { recomputed += step.recomputed_tokens; }
  void OnLoad(TimePoint from, TimePoint to, const Load& load) override {
    EXPECT_LT(from, to);
    loads.push_back(load);
  }
  void OnEnded(const RequestLife& life) override { ended.push_back(life); }

  std::vector<std::pair<double, std::int64_t>> gaps;
  std::vector<Load> loads;
  std::vector<RequestLife> ended;
  std::int64_t recomputed = 0;
};

class RequestTrackerTest : public ::testing::Test {
 protected:
  explicit RequestTrackerTest(Delivery delivery = Delivery::kPerStep)
      : tracker_({10, delivery, {}}, std::array<RunListener*, 1>{&listener_}),
        script_({&tracker_}) {}

  // A plan that admits exactly those whose prefill begins in it.
  static StepPlan Admitting(std::vector<WorkItem> work) {
    StepPlan plan;
    for (const WorkItem& item : work) {
      if (item.phase == Phase::kPrefill && item.start == 0) plan.admitted.push_back(item.request);
    }
    plan.work = std::move(work);
    return plan;
  }

  void Step(double from, double to, StepPlan plan, std::vector<ItemOutcome> outcomes = {}) {
    script_.Finish(At(to), script_.Launch(At(from), std::move(plan)), std::move(outcomes));
  }

  static StepPlan Preempting(RequestId id, Preemption::How how) {
    StepPlan plan;
    plan.preempted = {{id, how}};
    return plan;
  }

  Listener listener_;
  RequestTracker tracker_;
  ScriptedRun script_;
};

class BatchEndTest : public RequestTrackerTest {
 protected:
  BatchEndTest() : RequestTrackerTest(Delivery::kBatchEnd) {}
};

TEST_F(RequestTrackerTest, TellsEqualGapsOfAStepAtOnce) {
  for (std::uint32_t i = 0; i < 3; ++i) script_.Arrive(At(0), R(i), 2);
  Step(0, 10, Admitting({Prefill(R(0), 0, 2), Prefill(R(1), 0, 2)}));
  Step(10, 15, Admitting({Prefill(R(2), 0, 2)}));
  Step(15, 30, Admitting({Decode(R(0), 2), Decode(R(1), 2), Decode(R(2), 2)}));
  script_.Close();
  const std::vector<std::pair<double, std::int64_t>> expected = {{20, 2}, {15, 1}};
  EXPECT_EQ(listener_.gaps, expected);
}

TEST_F(RequestTrackerTest, CountsSeveralTokensOfOneItemWithGapsOfZero) {
  script_.Arrive(At(0), R(0), 2);
  Step(0, 10, Admitting({Prefill(R(0), 0, 2)}));
  Step(10, 30, Admitting({Decode(R(0), 2)}), {Last(R(0), 3)});
  script_.Close();
  const std::vector<std::pair<double, std::int64_t>> expected = {{20, 1}, {0, 2}};
  EXPECT_EQ(listener_.gaps, expected);
  ASSERT_EQ(listener_.ended.size(), 1u);
  EXPECT_EQ(listener_.ended[0].output_tokens, 4);
  EXPECT_EQ(listener_.ended[0].longest_gap, At(20) - kTimeZero);
}

TEST_F(RequestTrackerTest, TakesNoTokenFromAChunkThatDoesNotEmit) {
  script_.Arrive(At(0), R(0), 8);
  Step(0, 10, Admitting({Prefill(R(0), 0, 5, false)}));
  Step(10, 20, Admitting({Prefill(R(0), 5, 3)}), {Last(R(0))});
  script_.Close();
  ASSERT_EQ(listener_.ended.size(), 1u);
  EXPECT_EQ(listener_.ended[0].scheduled, At(0));
  EXPECT_EQ(listener_.ended[0].first_token, At(20));
  EXPECT_EQ(listener_.ended[0].output_tokens, 1);
  EXPECT_EQ(listener_.recomputed, 0);
}

TEST_F(RequestTrackerTest, DropsTokensIssuedBeforeTheEndWasKnown) {
  // Asynchronous: the second step carries the request although the first one ends it.
  script_.Arrive(At(0), R(0), 2);
  const StepId first = script_.Launch(At(0), Admitting({Prefill(R(0), 0, 2)}));
  const StepId second = script_.Launch(At(0), Admitting({Decode(R(0), 2)}));
  script_.Finish(At(10), first, {Last(R(0))});
  script_.Finish(At(20), second);
  script_.Close();
  ASSERT_EQ(listener_.ended.size(), 1u);
  EXPECT_EQ(listener_.ended[0].output_tokens, 1);
  EXPECT_TRUE(listener_.gaps.empty());
  EXPECT_EQ(tracker_.live(), 0);
}

TEST_F(RequestTrackerTest, CountsTokensComputedAgainAfterAPreemption) {
  // 6 prompt tokens and 2 decodes computed (positions 0-7); all 8 known and computed before are
  // computed again, the 9th known token is new.
  script_.Arrive(At(0), R(0), 6);
  Step(0, 10, Admitting({Prefill(R(0), 0, 6)}));
  Step(10, 20, Admitting({Decode(R(0), 6)}));
  Step(20, 30, Admitting({Decode(R(0), 7)}));
  Step(30, 40, Preempting(R(0), Preemption::How::kRecompute));
  Step(40, 50, Admitting({Prefill(R(0), 0, 5, false)}));
  Step(50, 60, Admitting({Prefill(R(0), 5, 4)}), {Last(R(0))});
  script_.Close();
  EXPECT_EQ(listener_.recomputed, 8);
  ASSERT_EQ(listener_.ended.size(), 1u);
  EXPECT_EQ(listener_.ended[0].preemptions, 1);
  EXPECT_EQ(listener_.ended[0].scheduled, At(0));
  EXPECT_EQ(listener_.ended[0].longest_gap, At(30) - kTimeZero);
}

TEST_F(RequestTrackerTest, CountsTokensComputedAgainAfterAPreemptionDuringThePrompt) {
  script_.Arrive(At(0), R(0), 20);
  Step(0, 10, Admitting({Prefill(R(0), 0, 12, false)}));
  Step(10, 20, Preempting(R(0), Preemption::How::kRecompute));
  // Again 8 tokens come from the prefix cache: computing starts behind them.
  StepPlan plan;
  plan.admitted = {R(0)};
  plan.hits = {{R(0), 8}};
  plan.work = {Prefill(R(0), 8, 12)};
  Step(20, 30, plan, {Last(R(0))});
  script_.Close();
  EXPECT_EQ(listener_.recomputed, 4);
  ASSERT_EQ(listener_.ended.size(), 1u);
  EXPECT_EQ(listener_.ended[0].cached_tokens, 0);
}

TEST_F(RequestTrackerTest, CountsTokensInFlightAsComputedBeforeAPreemption) {
  // Preempted while the decode at position 2 is in flight: positions 0-2 were computed.
  script_.Arrive(At(0), R(0), 2);
  Step(0, 10, Admitting({Prefill(R(0), 0, 2)}));
  const StepId decode = script_.Launch(At(10), Admitting({Decode(R(0), 2)}));
  const StepId preempting = script_.Launch(At(10), Preempting(R(0), Preemption::How::kRecompute));
  script_.Finish(At(20), decode);
  script_.Finish(At(20), preempting);
  Step(20, 30, Admitting({Prefill(R(0), 0, 4)}), {Last(R(0))});
  script_.Close();
  EXPECT_EQ(listener_.recomputed, 3);
}

TEST_F(RequestTrackerTest, RecomputesNothingAfterASwap) {
  script_.Arrive(At(0), R(0), 6);
  Step(0, 10, Admitting({Prefill(R(0), 0, 6)}));
  Step(10, 20, Preempting(R(0), Preemption::How::kSwap));
  StepPlan plan;
  plan.resumed = {R(0)};
  plan.work = {Decode(R(0), 6)};
  Step(20, 30, plan, {Last(R(0))});
  script_.Close();
  EXPECT_EQ(listener_.recomputed, 0);
  const std::vector<Load> loads = {{0, 1, 0, 10}, {0, 0, 1, 10}, {0, 1, 0, 10}};
  EXPECT_EQ(listener_.loads, loads);
}

TEST_F(RequestTrackerTest, KeepsTheCensusThroughEveryChangeOfState) {
  script_.Arrive(At(0), R(0), 2);
  script_.Arrive(At(0), R(1), 2);
  script_.Arrive(At(0), R(2), 2);
  StepPlan plan = Admitting({Prefill(R(0), 0, 2)});
  plan.free_blocks = 9;
  const StepId step = script_.Launch(At(0), plan);
  script_.Cancel(At(5), R(2));
  script_.Finish(At(10), step);
  script_.Close();
  EXPECT_EQ(tracker_.load(), (Load{1, 1, 0, 1}));
  plan = Preempting(R(0), Preemption::How::kRecompute);
  plan.rejected = {{R(1), RejectReason::kTooLargeForCache}};
  plan.free_blocks = 10;
  Step(10, 20, plan);
  script_.Close();
  EXPECT_EQ(tracker_.load(), (Load{1, 0, 0, 0}));
  EXPECT_EQ(tracker_.live(), 1);
  std::vector<RequestId> live;
  tracker_.ForEachLive([&](const RequestLife& life) { live.push_back(life.id); });
  EXPECT_EQ(live, std::vector<RequestId>{R(0)});
  script_.Cancel(At(30), R(0));
  script_.Close();
  ASSERT_EQ(listener_.ended.size(), 3u);
  EXPECT_EQ(listener_.ended[0].status, RequestStatus::kCancelled);
  EXPECT_EQ(listener_.ended[1].status, RequestStatus::kRejected);
  EXPECT_EQ(listener_.ended[2].status, RequestStatus::kCancelled);
}

// A stop string was found in the text of the first; the second has no text yet.
TEST_F(RequestTrackerTest, CountsAnsweredRequestsAsCompletedIfTheyHaveOutput) {
  script_.Arrive(At(0), R(0), 2);
  script_.Arrive(At(0), R(1), 2);
  Step(0, 10, Admitting({Prefill(R(0), 0, 2)}));
  script_.Cancel(At(15), R(0), /*answered=*/true);
  script_.Cancel(At(15), R(1), /*answered=*/true);
  script_.Close();
  ASSERT_EQ(listener_.ended.size(), 2u);
  EXPECT_EQ(listener_.ended[0].status, RequestStatus::kCompleted);
  EXPECT_EQ(listener_.ended[0].output_tokens, 1);
  EXPECT_EQ(listener_.ended[0].last_token, At(10));
  EXPECT_EQ(listener_.ended[0].ended, At(15));
  EXPECT_EQ(listener_.ended[1].status, RequestStatus::kCancelled);
}

TEST_F(RequestTrackerTest, IgnoresCancellationsOfRequestsThatAreGone) {
  script_.Arrive(At(0), R(0), 2);
  Step(0, 10, Admitting({Prefill(R(0), 0, 2)}), {Last(R(0))});
  script_.Cancel(At(10), R(0));
  script_.Close();
  ASSERT_EQ(listener_.ended.size(), 1u);
  EXPECT_EQ(listener_.ended[0].status, RequestStatus::kCompleted);
}

TEST_F(BatchEndTest, MakesTokensVisibleWhenTheLastOfTheBatchEnds) {
  // Policies' example 1a: A(.,4) and B(.,2) form a batch; B's client waits for A. C comes later.
  for (std::uint32_t i = 0; i < 3; ++i) script_.Arrive(At(0), R(i), 6);
  Step(0, 10, Admitting({Prefill(R(0), 0, 6), Prefill(R(1), 0, 6)}));
  Step(10, 20, Admitting({Decode(R(0), 6), Decode(R(1), 6)}), {Last(R(1))});
  Step(20, 30, Admitting({Decode(R(0), 7)}));
  script_.Close();
  EXPECT_TRUE(listener_.ended.empty());
  EXPECT_TRUE(listener_.gaps.empty());
  Step(30, 40, Admitting({Decode(R(0), 8)}), {Last(R(0))});
  Step(40, 50, Admitting({Prefill(R(2), 0, 6)}), {Last(R(2))});
  script_.Close();
  ASSERT_EQ(listener_.ended.size(), 3u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(listener_.ended[i].id, R(static_cast<std::uint32_t>(i)));
    EXPECT_EQ(listener_.ended[i].first_token, At(40));
    EXPECT_EQ(listener_.ended[i].ended, At(40));
  }
  EXPECT_EQ(listener_.ended[0].output_tokens, 4);
  EXPECT_EQ(listener_.ended[1].output_tokens, 2);
  EXPECT_EQ(listener_.ended[2].first_token, At(50));
  EXPECT_TRUE(listener_.gaps.empty());  // an answer in one piece has no time between its tokens
  EXPECT_EQ(tracker_.live(), 0);
}

TEST_F(BatchEndTest, DeliversToTheOthersWhenTheLastOneIsCancelled) {
  script_.Arrive(At(0), R(0), 6);
  script_.Arrive(At(0), R(1), 6);
  Step(0, 10, Admitting({Prefill(R(0), 0, 6), Prefill(R(1), 0, 6)}), {Last(R(1))});
  script_.Cancel(At(25), R(1));  // its tokens are on their way: too late
  script_.Cancel(At(25), R(0));
  script_.Close();
  ASSERT_EQ(listener_.ended.size(), 2u);
  EXPECT_EQ(listener_.ended[0].status, RequestStatus::kCancelled);
  EXPECT_EQ(listener_.ended[1].status, RequestStatus::kCompleted);
  EXPECT_EQ(listener_.ended[1].first_token, At(25));
  EXPECT_EQ(tracker_.live(), 0);
}

}  // namespace
}  // namespace twin
