#include "sched/decode_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace twin {
namespace {

using Tokens = DecodeSet::Tokens;

constexpr RequestId kA{0};
constexpr RequestId kB{1};
constexpr RequestId kC{2};

WorkItem Decode(RequestId id) { return {id, 10, 1, 0, Phase::kDecode, /*emits=*/true}; }
WorkItem Prompt(RequestId id) { return {id, 0, 8, 0, Phase::kPrefill, /*emits=*/true}; }

// A plan of these items with so many running requests.
StepPlan Plan(const std::vector<WorkItem>& work, std::int32_t running) {
  StepPlan plan;
  plan.work = work;
  plan.running = running;
  for (const WorkItem& item : work) {
    IsDecode(item) ? ++plan.totals.decode_items : ++plan.totals.prefill_items;
    ++plan.totals.emitting_items;
  }
  return plan;
}

// The set of A and B, whose latest step is the second that held all running requests.
DecodeSet OpenSet() {
  DecodeSet set;
  const StepPlan plan = Plan({Decode(kA), Decode(kB)}, 2);
  for (const bool opens : {false, true}) {
    set.Launched(plan);
    EXPECT_EQ(set.Returned(/*item_by_item=*/false), Tokens::kOther);
    EXPECT_EQ(set.Opens(plan), opens);
  }
  set.Join(kA);
  set.Join(kB);
  return set;
}

Tokens Take(DecodeSet& set, const StepPlan& plan) {
  set.Launched(plan);
  return set.Returned(/*item_by_item=*/false);
}

TEST(DecodeSetTest, AStepThatDecodesAsManyAsThereAreMembersGivesEachAToken) {
  DecodeSet set = OpenSet();
  EXPECT_EQ(Take(set, Plan({Decode(kB), Decode(kA)}, 2)), Tokens::kAll);
  EXPECT_EQ(set.steps(), 1);
  EXPECT_EQ(set.newcomers(), 0);
}

TEST(DecodeSetTest, ItStaysOpenBesideAPromptWhoseRequestJoins) {
  DecodeSet set = OpenSet();
  EXPECT_EQ(Take(set, Plan({Decode(kA), Decode(kB), Prompt(kC)}, 3)), Tokens::kAll);
  EXPECT_EQ(set.newcomers(), 1);
  set.Join(kC);
  EXPECT_EQ(Take(set, Plan({Decode(kA), Decode(kB), Decode(kC)}, 3)), Tokens::kAll);
  EXPECT_EQ(set.steps(), 2);
}

TEST(DecodeSetTest, AStepOfPromptsAloneGivesTheMembersNothing) {
  DecodeSet set = OpenSet();
  EXPECT_EQ(Take(set, Plan({Prompt(kC)}, 3)), Tokens::kNone);
  EXPECT_EQ(set.newcomers(), 1);
  EXPECT_EQ(set.steps(), 0);
}

TEST(DecodeSetTest, AStepThatLeavesAMemberOutIsTakenItemByItem) {
  DecodeSet set = OpenSet();
  EXPECT_EQ(Take(set, Plan({Decode(kA)}, 2)), Tokens::kOther);
}

// A step was planned ahead with B, which ended before it returned: its decode counts for nobody.
TEST(DecodeSetTest, DecodesOfRequestsThatEndedInFlightDoNotCount) {
  DecodeSet set = OpenSet();
  const StepPlan ahead = Plan({Decode(kA), Decode(kB)}, 2);
  set.Launched(ahead);
  set.Leave(kB);
  set.Ended(kB);
  EXPECT_EQ(set.Returned(/*item_by_item=*/false), Tokens::kAll);
  EXPECT_EQ(set.newcomers(), 0);
  EXPECT_EQ(Take(set, Plan({Decode(kA)}, 1)), Tokens::kAll);
}

TEST(DecodeSetTest, StepsThatPreemptResumeOrVerifyDraftsAreTakenItemByItem) {
  StepPlan preempts = Plan({Decode(kA), Decode(kB)}, 2);
  preempts.preempted.push_back({kC, Preemption::How::kRecompute});
  StepPlan resumes = Plan({Decode(kA), Decode(kB)}, 2);
  resumes.resumed.push_back(kC);
  StepPlan verifies = Plan({Decode(kA), Decode(kB)}, 2);
  verifies.totals.draft_items = 1;
  for (const StepPlan& plan : {preempts, resumes, verifies}) {
    DecodeSet set = OpenSet();
    EXPECT_EQ(Take(set, plan), Tokens::kOther);
  }
}

// C was prefilled by another replica: it is no member, and A is left out, so the numbers agree.
TEST(DecodeSetTest, ADecodeThatIsAdmittedDoesNotStandForAMemberThatIsLeftOut) {
  DecodeSet set = OpenSet();
  set.ReceivesKv();
  StepPlan plan = Plan({Decode(kB), Decode(kC)}, 3);
  plan.admitted.push_back(kC);
  EXPECT_EQ(Take(set, plan), Tokens::kOther);

  set = OpenSet();
  set.ReceivesKv();
  StepPlan beside = Plan({Decode(kA), Decode(kB), Decode(kC)}, 3);
  beside.admitted.push_back(kC);
  EXPECT_EQ(Take(set, beside), Tokens::kAll);
  EXPECT_EQ(set.newcomers(), 1);
}

// Steps of which each holds other requests than the one before never open it.
TEST(DecodeSetTest, ItOpensWithTheSecondStepInARowThatHoldsAllRunningRequests) {
  DecodeSet set;
  const StepPlan whole = Plan({Decode(kA), Decode(kB)}, 2);
  const StepPlan part = Plan({Decode(kA)}, 2);
  for (const StepPlan* plan : {&whole, &part, &whole, &part}) {
    EXPECT_EQ(Take(set, *plan), Tokens::kOther);
    EXPECT_FALSE(set.Opens(*plan));
  }
}

TEST(DecodeSetTest, ResultsThatDifferFromTheItemsClearIt) {
  DecodeSet set = OpenSet();
  const StepPlan plan = Plan({Decode(kA), Decode(kB)}, 2);
  set.Launched(plan);
  EXPECT_EQ(set.Returned(/*item_by_item=*/true), Tokens::kOther);
  set.Clear();
  EXPECT_TRUE(set.members().empty());
  EXPECT_FALSE(set.Opens(plan)) << "it has just been cleared";
  EXPECT_EQ(Take(set, plan), Tokens::kOther);
  EXPECT_TRUE(set.Opens(plan));
}

}  // namespace
}  // namespace twin
