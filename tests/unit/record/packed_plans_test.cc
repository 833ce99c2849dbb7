// Plans that are packed and shown again.
#include "record/packed_plans.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/random.h"

namespace twin {
namespace {

WorkItem DecodeOf(std::uint32_t request, std::int32_t start) {
  return {.request = RequestId{request},
          .start = start,
          .tokens = 1,
          .phase = Phase::kDecode,
          .emits = true};
}

// Step `step` of the replica decodes requests 1 and 2, whose tokens count from 10 and 20.
StepPlan DecodingStep(std::uint64_t step, std::int32_t replica = 0) {
  StepPlan plan;
  plan.id = StepId{step};
  plan.replica = replica;
  const auto later = static_cast<std::int32_t>(step);
  plan.work = {DecodeOf(1, 10 + later), DecodeOf(2, 20 + later)};
  return plan;
}

// Words that the plan takes behind `before`, all of one replica.
std::size_t WordsBehind(const StepPlan& before, const StepPlan& plan) {
  PackedPlans packed;
  PlanPacker packer;
  packer.Add(before, packed);
  const std::size_t used = packed.used;
  packer.Add(plan, packed);
  return packed.used - used;
}

// A head, 6 words of header, 2 for each item; of a repeated step the head, 2 for each operation.
TEST(PackedPlansTest, ARepeatedStepTakesAWordAndItsBlockOperations) {
  EXPECT_EQ(WordsBehind(DecodingStep(5), DecodingStep(6)), 1u);
  StepPlan grows = DecodingStep(6);
  grows.kv.push_back({.request = RequestId{2}, .block = BlockId{7}});
  EXPECT_EQ(WordsBehind(DecodingStep(5), grows), 3u);
  EXPECT_EQ(WordsBehind(grows, DecodingStep(7)), 1u);
}

TEST(PackedPlansTest, AnyOtherStepIsKeptWhole) {
  constexpr std::size_t kWhole = 1 + 6 + 2 * 2;
  EXPECT_EQ(WordsBehind(DecodingStep(5), DecodingStep(7)), kWhole);
  EXPECT_EQ(WordsBehind(DecodingStep(5), DecodingStep(6, /*replica=*/1)), kWhole);
  StepPlan longer = DecodingStep(6);
  longer.work[1].tokens = 2;
  EXPECT_EQ(WordsBehind(DecodingStep(5), longer), kWhole);
  StepPlan turned = DecodingStep(6);
  std::swap(turned.work[0], turned.work[1]);
  EXPECT_EQ(WordsBehind(DecodingStep(5), turned), kWhole);
  StepPlan ends = DecodingStep(6);
  ends.released = {RequestId{9}};
  EXPECT_EQ(WordsBehind(DecodingStep(5), ends), kWhole + 2);
}

// Steps that repeat the one before, or change it in one of the ways in which plans differ.
StepPlan NextStep(const StepPlan& before, Random& random) {
  StepPlan plan;
  plan.id = StepId{Index(before.id) + 1};
  plan.replica = before.replica;
  plan.work = before.work;
  for (WorkItem& item : plan.work) item.start += 1;
  const auto id = RequestId{static_cast<std::uint32_t>(random.UniformInt(100, 200))};
  switch (random.UniformInt(0, 7)) {
    case 0:
      plan.work.push_back(DecodeOf(Index(id), 3));
      plan.admitted = {id};
      break;
    case 1:
      if (!plan.work.empty()) plan.work.pop_back();
      plan.released = {id};
      break;
    case 2:
      plan.preempted.push_back({.request = id, .how = Preemption::How::kSwap});
      break;
    case 3:
    case 4:
      plan.kv.push_back({.request = id, .block = BlockId{3}});
      break;
    default:
      break;
  }
  return plan;
}

// Three replicas, packed one after the other and shown in turns.
TEST(PackedPlansTest, TheDigestIsThatOfThePlans) {
  constexpr std::size_t kReplicas = 3;
  constexpr std::size_t kSteps = 400;
  Random random(1, "plans");
  std::vector<std::vector<StepPlan>> plans(kReplicas);
  PackedPlans packed;
  PlanPacker packer;
  std::vector<std::size_t> begins;
  for (std::size_t replica = 0; replica < kReplicas; ++replica) {
    packer.Restart();
    begins.push_back(packed.used);
    StepPlan plan = DecodingStep(1, static_cast<std::int32_t>(replica));
    for (std::size_t i = 0; i < kSteps; ++i) {
      packer.Add(plan, packed);
      plans[replica].push_back(plan);
      plan = NextStep(plan, random);
    }
  }
  PlanDigest expected;
  PlanDigest shown;
  PlanUnpacker unpacker;
  for (std::size_t i = 0; i < kSteps; ++i) {
    for (std::size_t replica = 0; replica < kReplicas; ++replica) {
      expected.OnPlan(kTimeZero, plans[replica][i]);
      begins[replica] = unpacker.Show(packed, begins[replica], replica, shown);
      ASSERT_EQ(shown.value(), expected.value()) << "replica " << replica << ", step " << i;
    }
  }
  EXPECT_EQ(shown.plans(), kReplicas * kSteps);
}

}  // namespace
}  // namespace twin
