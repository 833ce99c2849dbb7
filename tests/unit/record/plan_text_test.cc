#include "run/record/plan_text.h"

#include <gtest/gtest.h>

#include "tests/support/scripted_run.h"

namespace twin {
namespace {

using testing::Decode;
using testing::Prefill;
using testing::R;

TEST(PlanTextTest, WritesTheNotationOfTheGoldenExamples) {
  StepPlan plan;
  plan.id = StepId{3};
  plan.work = {Decode(R(0), 6), Prefill(R(1), 0, 7)};
  plan.preempted = {{R(23), Preemption::How::kRecompute}};
  plan.free_blocks = 4;
  EXPECT_EQ(PlanText(plan), "it3: r0:D1 r1:P7 | pre=[r23] | free=4");
}

TEST(PlanTextTest, WritesEveryListThatIsNotEmpty) {
  StepPlan plan;
  plan.id = StepId{12};
  plan.work = {Prefill(R(2), 0, 3)};
  plan.work[0].padded_tokens = 10;
  plan.preempted = {{R(4), Preemption::How::kRecompute}, {R(5), Preemption::How::kSwap}};
  plan.admitted = {R(2)};
  plan.resumed = {R(6)};
  plan.released = {R(7), R(8)};
  plan.padding_rows = {R(9)};
  plan.rejected = {{R(10), RejectReason::kTooLongForModel}};
  plan.hits = {{R(2), 32}};
  EXPECT_EQ(PlanText(plan),
            "it12: r2:P3/10 | pre=[r4,r5s] | adm=[r2] | res=[r6] | rel=[r7,r8] | pad=[r9] | "
            "rej=[r10] | hit=[r2:32] | free=0");
}

TEST(PlanTextTest, WritesAPlanWithoutWork) {
  StepPlan plan;
  plan.id = StepId{1};
  EXPECT_EQ(PlanText(plan), "it1: | free=0");
}

TEST(FirstDifferenceTest, FindsNoneBetweenEqualDecisions) {
  StepPlan left;
  left.work = {Prefill(R(1), 0, 7)};
  StepPlan right = left;
  right.free_blocks = 9;
  right.waiting = 3;
  EXPECT_EQ(FirstDifference(left, right), std::nullopt);
}

TEST(FirstDifferenceTest, NamesTheFieldAndBothValues) {
  StepPlan left;
  left.id = StepId{1};
  left.work = {Prefill(R(1), 0, 7), Decode(R(2), 9)};
  left.kv = {{KvOperation::Kind::kAllocate, R(1), BlockId{3}, BlockId::kNone}};

  StepPlan right = left;
  right.id = StepId{2};
  EXPECT_EQ(FirstDifference(left, right), (PlanDifference{"id", "1", "2"}));

  right = left;
  right.work[1].start = 10;
  EXPECT_EQ(FirstDifference(left, right),
            (PlanDifference{"work[1]", "r2:D1 at 9 emits", "r2:D1 at 10 emits"}));

  right = left;
  right.work.pop_back();
  EXPECT_EQ(FirstDifference(left, right),
            (PlanDifference{"work[1]", "r2:D1 at 9 emits", "nothing"}));

  right = left;
  right.kv[0].block = BlockId{4};
  EXPECT_EQ(FirstDifference(left, right),
            (PlanDifference{"kv[0]", "allocate r1 block 3", "allocate r1 block 4"}));

  right = left;
  right.rejected = {{R(5), RejectReason::kTooLargeForCache}};
  EXPECT_EQ(FirstDifference(left, right),
            (PlanDifference{"rejected[0]", "nothing", "r5 too large for the cache"}));
}

}  // namespace
}  // namespace twin
