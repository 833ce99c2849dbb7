// Shares by hand, in slots times milliseconds.
#include "run/record/slot_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace twin {
namespace {

using std::chrono::milliseconds;

constexpr TimePoint At(std::int64_t ms) { return kTimeZero + milliseconds(ms); }

void Step(SlotMeter& meter, std::int64_t from_ms, std::int64_t to_ms, std::int32_t running,
          bool works = true, std::int32_t replica = 0) {
  StepPlan plan;
  plan.replica = replica;
  plan.running = running;
  if (works) plan.work.push_back({RequestId{0}, 0, 1, 0, Phase::kDecode, true});
  meter.OnStepEnded({.plan = plan,
                     .planned = At(from_ms),
                     .started = At(from_ms),
                     .finished = At(to_ms),
                     .recomputed_tokens = 0,
                     .outcomes = {}});
}

double ShareOf(SlotMeter& meter) {
  Summary summary;
  meter.Summarise(MetricWriter(summary));
  return summary.Number("pipeline_slots_used_share");
}

// Three requests, each in a step of its own: all that three requests can use of four slots. At
// first one runs, then two: 2 * 1 + 2 * 2 + 6 * 3 of as many.
TEST(SlotMeterTest, ARequestInEachStepUsesAllThatRequestsCan) {
  SlotMeter meter({4});
  Step(meter, 0, 10, 1);
  Step(meter, 2, 10, 2);
  Step(meter, 4, 10, 3);
  EXPECT_DOUBLE_EQ(ShareOf(meter), 1);
}

// Eight requests in one step of four slots use one. After a pause, in which nothing is in flight,
// two steps do for 10 ms and one of them for 10 more: (10 + 20 + 10) / (40 + 80).
TEST(SlotMeterTest, RequestsThatShareAStepLeaveSlots) {
  SlotMeter meter({4});
  Step(meter, 0, 10, 8);
  Step(meter, 50, 60, 8);
  Step(meter, 50, 70, 8);
  EXPECT_DOUBLE_EQ(ShareOf(meter), 40.0 / 120);
}

// One request has a step; the chunks ahead of its prompt and a step without work add nothing.
TEST(SlotMeterTest, NoRequestUsesMoreThanOneSlot) {
  SlotMeter meter({4});
  Step(meter, 0, 10, 1);
  Step(meter, 0, 12, 1);
  Step(meter, 1, 13, 1, false);
  Step(meter, 12, 20, 1);
  EXPECT_DOUBLE_EQ(ShareOf(meter), 1);
}

// 10 of 20 at replica 1, 10 of 10 at replica 2; replica 0 has no pipeline.
TEST(SlotMeterTest, ReplicasAddUp) {
  SlotMeter meter({1, 2, 4});
  Step(meter, 0, 1000, 9, true, 0);
  Step(meter, 0, 10, 2, true, 1);
  Step(meter, 5, 15, 1, true, 2);
  EXPECT_DOUBLE_EQ(ShareOf(meter), 20.0 / 30);
}

TEST(SlotMeterTest, SaysNothingWithoutSteps) {
  SlotMeter meter({2});
  EXPECT_TRUE(std::isnan(ShareOf(meter)));
}

TEST(SlotsWarningTest, TellsOfLessThanHalf) {
  Summary summary;
  EXPECT_EQ(SlotsWarning(summary), "") << "no pipeline";
  summary.Set("pipeline_slots_used_share", 0.5);
  EXPECT_EQ(SlotsWarning(summary), "");
  summary.Set("pipeline_slots_used_share", 0.0125);
  EXPECT_THAT(SlotsWarning(summary),
              ::testing::AllOf(::testing::HasSubstr("pipeline_slots_used_share is 0.013"),
                               ::testing::HasSubstr("policy ship")));
}

}  // namespace
}  // namespace twin
