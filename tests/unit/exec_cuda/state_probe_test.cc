// The loads of doctor --measure state, on a small emulated device and with an NVML of our own.
#include "exec/cuda/state_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "exec/cuda/nvml_clocks.h"
#include "tests/cuda_emulation/emulated_device.h"
#include "tests/unit/exec_cuda/device_model.h"

namespace twin::exec {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class StateProbeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::PrepareDevice();
    // 32 MiB are the workspace of products; what is left holds small ones.
    cuda_emulation::ResetDevice({.memory_bytes = std::size_t{36} << 20});
  }
};

TEST_F(StateProbeTest, RunsChainsBurstsAndDecodesAndTimesEveryCall) {
  const ProbedDeviceState state = MeasureDeviceState(0, {.seconds = 0.03, .nvml = FAKE_NVML});
  EXPECT_EQ(state.tokens, 1024);
  std::map<std::string, int> counted;
  double before = 0;
  for (const StateSeries& series : state.series) {
    ++counted[series.name];
    EXPECT_GT(series.begin_ms, before);
    before = series.begin_ms;
    ASSERT_GE(series.calls.ms.size(), 4U);
    ASSERT_EQ(series.calls.begin_ms.size(), series.calls.ms.size());
    EXPECT_EQ(series.calls.begin_ms[0], 0);
    for (std::size_t i = 1; i < series.calls.ms.size(); ++i) {
      // Each call begins where the one before it ends, but for the resolution of events.
      EXPECT_NEAR(series.calls.begin_ms[i], series.calls.begin_ms[i - 1] + series.calls.ms[i - 1],
                  0.01);
    }
  }
  // Six pauses of eight bursts each; three batches of decodes.
  EXPECT_EQ(counted,
            (std::map<std::string, int>{{"chain", 3}, {"bursts", 48}, {"chain after decodes", 3}}));
  // Four sizes of chunks, five multiples of 16 about each, both sides, two products.
  EXPECT_EQ(state.tiles.size(), 4U * 5 * 2 * 2);
  EXPECT_EQ(cuda_emulation::LiveAllocations(), 0);

  // Clocks, power and reasons were read beside the loads.
  EXPECT_EQ(state.no_clocks, "");
  ASSERT_GE(state.clocks.size(), 2U);
  EXPECT_EQ(state.clocks[1].sm_mhz, 1755U);
  EXPECT_EQ(state.clocks[1].memory_mhz, 2619U);
  EXPECT_EQ(state.clocks[1].watts, 412.5);
  EXPECT_EQ(state.clocks[1].event_reasons, 4U);
  EXPECT_GT(state.clocks[1].ms, state.clocks[0].ms);
  EXPECT_THAT(Summarize(state), Contains(HasSubstr("SM clock 1755 to 1755 MHz, at most 412 W")));
}

TEST(NvmlClocksTest, WithoutTheLibraryOrTheDeviceSayWhyThereAreNone) {
  const auto now = cuda::NvmlClocks::Clock::now();
  cuda::NvmlClocks missing("libnvidia-ml.so.0", "0000:01:00.0", now);
  missing.Stop();
  EXPECT_THAT(missing.why(), HasSubstr("libnvidia-ml.so.0"));
  EXPECT_TRUE(missing.samples().empty());
  EXPECT_THAT(cuda::NvmlClocks("libm.so.6", "0000:01:00.0", now).why(), HasSubstr("lacks"));
  EXPECT_EQ(cuda::NvmlClocks(FAKE_NVML, "", now).why(),
            "nvmlDeviceGetHandleByPciBusId_v2() failed with 6");
}

// A device whose calls take 1 ms at first and then 1.2 ms, reached exponentially in 30 ms.
TEST(StateSummaryTest, FindsTheRestedAndTheLoadedRateAndTheTimeBetween) {
  ProbedDeviceState state;
  state.tokens = 1000;
  state.outputs = 1000;
  state.inputs = 500'000;  // 1e12 operations
  StateSeries series{.name = "chain", .rest_ms = 500, .rows = 0, .begin_ms = 0, .calls = {}};
  for (double at = 0; at < 300;) {
    const double ms = 1.2 - 0.2 * std::exp(-at / 30);
    series.calls.begin_ms.push_back(at);
    series.calls.ms.push_back(ms);
    at += ms;
  }
  state.series.push_back(series);
  state.no_clocks = "not asked";
  // The third call is the median of the first 5 ms: 1.2 - 0.2 exp(-2.007 / 30) = 1.01294 ms. The
  // middle of the last 150 ms: 1.2 - 0.2 exp(-225 / 30) = 1.19989 ms.
  EXPECT_EQ(Summarize(state)[0],
            "after 500 ms of rest: 987.2 TFLOP/s at first, 833.4 at last, a factor of 1.185, 63 % "
            "of it in 30 ms");
}

}  // namespace
}  // namespace twin::exec
