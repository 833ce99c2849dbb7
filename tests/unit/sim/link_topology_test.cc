#include "sim/cost/link_topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/input_error.h"
#include "tests/unit/sim/test_hardware.h"

namespace twin::sim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Microseconds of an all-reduce of the hidden states of one token, 16 bits each.
double Microseconds(LinkTopology topology, std::int32_t devices, std::int32_t hidden) {
  return 1e6 * AllReduceOf(Lpu(), topology, devices).Seconds(2.0 * hidden);
}

// By hand with H = 0.722 us and B = 12.195 GB/s; 16,384 bytes take 1.3435 us on a link.
TEST(LinkTopologyTest, AllReduceTakesTheTimesWorkedOutByHand) {
  // 14 H + 14 / 8 x 1.3435
  EXPECT_NEAR(Microseconds(LinkTopology::kRing, 8, 8192), 12.459, 0.001);
  // min(H + 1.3435 = 2.065, 2 H + 2 / 8 x 1.3435)
  EXPECT_NEAR(Microseconds(LinkTopology::kClique, 8, 8192), 1.780, 0.001);
  // min(H + 0.6717, 2 H + 0.6717 = 2.116): two devices send all at once
  EXPECT_NEAR(Microseconds(LinkTopology::kClique, 2, 4096), 1.394, 0.001);
  // min(2 (H + 1.3435) = 4.131, 4 H + 2 (1 / 4 + 1 / 16) x 1.3435)
  EXPECT_NEAR(Microseconds(LinkTopology::kCliqueGrid, 16, 8192), 3.728, 0.001);
  // 3 H + 3 / 8 x 0.6717
  EXPECT_NEAR(Microseconds(LinkTopology::kDragonfly, 16, 4096), 2.418, 0.001);
}

TEST(LinkTopologyTest, ADragonflyOfOneNodeIsAClique) {
  EXPECT_EQ(Microseconds(LinkTopology::kDragonfly, 8, 8192),
            Microseconds(LinkTopology::kClique, 8, 8192));
}

TEST(LinkTopologyTest, OneDeviceSendsNothing) {
  EXPECT_EQ(Microseconds(LinkTopology::kRing, 1, 8192), 0);
  EXPECT_EQ(Microseconds(LinkTopology::kClique, 1, 8192), 0);
}

TEST(LinkTopologyTest, RefusesDevicesThatATopologyDoesNotHold) {
  const HardwareSpec lpu = Lpu();
  EXPECT_NO_THROW(RequireTopology(lpu, LinkTopology::kRing, 1000));
  EXPECT_NO_THROW(RequireTopology(lpu, LinkTopology::kClique, 8));
  EXPECT_THAT([&] { RequireTopology(lpu, LinkTopology::kClique, 16); },
              ThrowsMessage<InputError>(
                  AllOf(HasSubstr("CLIQUE"), HasSubstr("16 devices"), HasSubstr("at most 8"))));
  EXPECT_NO_THROW(RequireTopology(lpu, LinkTopology::kCliqueGrid, 16));
  EXPECT_THAT([&] { RequireTopology(lpu, LinkTopology::kCliqueGrid, 12); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("CLIQUE_GRID"), HasSubstr("12 devices"),
                                              HasSubstr("square number"))));
  // 33 nodes of 8: each of the 8 x 4 global links of a node leads to another one.
  EXPECT_NO_THROW(RequireTopology(lpu, LinkTopology::kDragonfly, 264));
  EXPECT_THAT([&] { RequireTopology(lpu, LinkTopology::kDragonfly, 265); },
              ThrowsMessage<InputError>(HasSubstr("allowed: at most 264")));
}

TEST(LinkTopologyTest, LatenciesByReachReplaceThatOfALink) {
  HardwareSpec lp30 = Lpu();
  lp30.memory_bytes = 500'000'000;
  lp30.dataflow->reach = {{8e9, 0.35e-6}, {64e9, 0.75e-6}};
  EXPECT_EQ(LinkLatency(lp30, 16), 0.35e-6);   // 8 GB
  EXPECT_EQ(LinkLatency(lp30, 17), 0.75e-6);   // 8.5 GB
  EXPECT_EQ(LinkLatency(lp30, 256), 0.75e-6);  // more than the table has
}

}  // namespace
}  // namespace twin::sim
