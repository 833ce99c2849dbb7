#include "sched/stale_tokens.h"

#include <gtest/gtest.h>

namespace twin {
namespace {

WorkItem Item(std::uint32_t request, bool emits) {
  return {.request = RequestId{request}, .tokens = 1, .phase = Phase::kDecode, .emits = emits};
}

TEST(StaleTokensTest, TakesOnlyWhatWasInFlightWhenItsRequestWasPreempted) {
  StepPlan first;
  first.work = {Item(0, true), Item(1, true), Item(2, false)};
  StepPlan second;
  second.preempted = {{RequestId{1}, Preemption::How::kRecompute},
                      {RequestId{2}, Preemption::How::kRecompute}};
  second.work = {Item(0, true)};
  StepPlan third;
  third.work = {Item(1, true)};
  StaleTokens stale;
  stale.Launched(first);
  stale.Launched(second);
  EXPECT_FALSE(stale.Takes(RequestId{0}));
  EXPECT_TRUE(stale.Takes(RequestId{1}));
  stale.Returned();
  stale.Launched(third);
  EXPECT_FALSE(stale.Takes(RequestId{0}));
  stale.Returned();
  EXPECT_FALSE(stale.Takes(RequestId{1}));  // computed again
}

}  // namespace
}  // namespace twin
