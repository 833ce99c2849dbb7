#include "sim/cost/device_state.h"

#include <gtest/gtest.h>

#include <cmath>

namespace twin::sim {
namespace {

using std::chrono::milliseconds;

// tau = 40 ms; over one tau the distance to the load shrinks to 1/e = 0.367879.
TEST(HeatMemoryTest, ApproachesTheLoadWithItsTimeConstant) {
  const HeatMemory memory(0.040);
  EXPECT_NEAR(memory.After(0, 1, 0.040), 1 - 0.367879441, 1e-9);
  EXPECT_NEAR(memory.After(1, 0, 0.040), 0.367879441, 1e-9);
  EXPECT_NEAR(memory.After(0.5, 0.5, 123), 0.5, 1e-12);
}

// The mean of 1 - exp(-t / tau) over one tau is 1/e; over a time that is long against tau it is
// 1 - tau / T.
TEST(HeatMemoryTest, MeanIsTheIntegralOverTheInterval) {
  const HeatMemory memory(0.040);
  EXPECT_NEAR(memory.Mean(0, 1, 0.040), 0.367879441, 1e-9);
  EXPECT_NEAR(memory.Mean(0, 1, 40), 1 - 0.040 / 40, 1e-9);
  EXPECT_DOUBLE_EQ(memory.Mean(0.3, 1, 0), 0.3);
}

TEST(HeatMemoryTest, TwoIntervalsAreOneTwiceAsLong) {
  const HeatMemory memory(0.025);
  const double half = memory.After(0.2, 1, 0.010);
  EXPECT_NEAR(memory.After(half, 1, 0.010), memory.After(0.2, 1, 0.020), 1e-12);
}

TEST(HeatMemoryTest, IdleTimeRests) {
  const HeatMemory memory(0.040);
  const DeviceState state{.heat = 1, .changed = kTimeZero + milliseconds(100)};
  EXPECT_NEAR(memory.Rested(state, kTimeZero + milliseconds(180)), std::exp(-2.0), 1e-12);
  EXPECT_EQ(memory.Rested(state, state.changed), 1);
}

}  // namespace
}  // namespace twin::sim
