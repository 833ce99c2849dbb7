#include "sim/cost/constant_cost.h"

#include <gtest/gtest.h>

#include <array>

#include "core/input_error.h"

namespace twin::sim {
namespace {

using std::chrono::milliseconds;

TEST(ConstantCostTest, EveryStepTakesTheSameWhateverItsWork) {
  const ConstantCost cost({.host_time = milliseconds(1), .step_time = milliseconds(8)}, 1);
  StepPlan small;
  small.totals.decode_items = 1;
  StepPlan large;
  large.totals.prefill_tokens = 100'000;
  for (const StepPlan* plan : {&small, &large}) {
    std::array<Duration, 1> times{};
    cost.DeviceTimes(*plan, times);
    EXPECT_EQ(times[0], milliseconds(8));
    EXPECT_EQ(cost.HostTime(*plan), milliseconds(1));
  }
}

TEST(ConstantCostTest, StagesShareTheStepEqually) {
  const ConstantCost cost({.step_time = milliseconds(8)}, 4);
  ASSERT_EQ(cost.stages(), 4);
  std::array<Duration, 4> times{};
  cost.DeviceTimes(StepPlan{}, times);
  for (const Duration time : times) EXPECT_EQ(time, milliseconds(2));
}

TEST(ConstantCostTest, RefusesNegativeTimes) {
  EXPECT_THROW(ConstantCost({.step_time = milliseconds(-1)}, 1), InputError);
}

}  // namespace
}  // namespace twin::sim
