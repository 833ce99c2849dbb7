#include "sim/devices/operations/collective_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/input_error.h"
#include "sim/devices/operations/memory_bound_model.h"

namespace twin::sim {
namespace {

constexpr double kUs = 1e-6;

CollectiveCurve Curve(std::int32_t ranks, double factor) {
  return {.kind = Collective::kAllReduce,
          .implementation = CollectiveImplementation::kVllm,
          .ranks = ranks,
          .bytes = {1024, 4096, 1 << 20},
          .microseconds = {4 * factor, 5 * factor, 20 * factor}};
}

TEST(CollectiveModelTest, MeasuredTimesAreInterpolatedAndExtendedAtTheLastRate) {
  const CollectiveModel model({}, KernelLibrary::kVllm, {.curves = {Curve(2, 1)}});
  const auto us = [&](double bytes) {
    return model(Collective::kAllReduce, 2, bytes).seconds / kUs;
  };
  EXPECT_NEAR(us(1), 4, 1e-9);
  EXPECT_NEAR(us(4096), 5, 1e-9);
  EXPECT_NEAR(us(2048), std::sqrt(4.0 * 5.0), 1e-9);  // halfway in the logarithm
  const double rate = 15.0 / ((1 << 20) - 4096);
  EXPECT_NEAR(us(2 << 20), 20 + rate * (1 << 20), 1e-9);
}

TEST(CollectiveModelTest, RanksThatWereNotMeasuredLieBetweenTheirNeighborsWithMoreSpread) {
  const CollectiveModel model({}, KernelLibrary::kVllm, {.curves = {Curve(2, 1), Curve(8, 4)}});
  const TimeEstimate four = model(Collective::kAllReduce, 4, 4096);
  EXPECT_NEAR(four.seconds / kUs, 10, 1e-9);
  EXPECT_GT(four.log_sd, model(Collective::kAllReduce, 2, 4096).log_sd);
}

// 100 GB/s, 1 us per message, a clock of 1.9 GHz because the number of SMs is unknown.
HardwareSpec Unmeasured() {
  HardwareSpec hardware;
  hardware.link_bandwidth_bytes_per_s = 100e9;
  hardware.link_bandwidth_fraction = 1;
  hardware.link_latency_s = 1e-6;
  hardware.pcie_bandwidth_bytes_per_s = 10e9;
  return hardware;
}

double UnmeasuredUs(Collective kind, std::int32_t ranks, double bytes, KernelLibrary library) {
  return CollectiveModel(Unmeasured(), library)(kind, ranks, bytes).seconds / kUs;
}

// 1 MB between 2 ranks in one shot: 3 + 1 + 10 us; in two: 3 + 2 + 10; the ring also takes 3 + 2 +
// 10. With 8 ranks one shot would read 7 MB.
TEST(CollectiveModelTest, TheClosedFormTakesTheFastestProtocol) {
  constexpr auto kSglang = KernelLibrary::kSglang;
  EXPECT_NEAR(UnmeasuredUs(Collective::kAllReduce, 2, 1e6, kSglang), 14, 1e-6);
  EXPECT_NEAR(UnmeasuredUs(Collective::kAllReduce, 8, 1e6, kSglang), 3 + 2 + 17.5, 1e-6);
  EXPECT_NEAR(UnmeasuredUs(Collective::kSend, 2, 1e6, kSglang), 3 + 1 + 10, 1e-6);
}

// One shot: launch, a tenth of a latency per peer, all bytes of the peers at 0.88 of the rate. Two
// shots: 3.2 and 0.27 latencies per peer, 0.92 of the rate. Large: a launch of 71 us, 1.16.
TEST(CollectiveModelTest, VllmsAllReduceHasThreeProtocolsOfItsOwn) {
  const auto us = [](std::int32_t ranks, double bytes) {
    return UnmeasuredUs(Collective::kAllReduce, ranks, bytes, KernelLibrary::kVllm);
  };
  EXPECT_NEAR(us(2, 8800), 4.3 + 0.1 + 0.1, 1e-6);
  EXPECT_NEAR(us(8, 920e3), 4.3 + 3.2 + 0.27 * 7 + 2 * 0.875 * 10, 1e-6);
  EXPECT_NEAR(us(8, 116e6), 71 + 2 * 0.875 * 1000, 1e-6);
}

// Tree: 6.6 us and 1.8 latencies for each of three levels, 0.38 of the rate. Ring: 26 us.
TEST(CollectiveModelTest, NcclPassesFewBytesThroughATreeAndManyThroughARing) {
  const auto us = [](double bytes) {
    return UnmeasuredUs(Collective::kAllGather, 8, bytes, KernelLibrary::kVllm);
  };
  EXPECT_NEAR(us(38e3), 6.6 + 1.8 * 3 + 0.875, 1e-6);
  EXPECT_NEAR(us(100e6), 26 + 0.875 * 1000, 1e-6);
}

// Twice the clock, 128 fp32 lanes per SM: launches take 1 / sqrt(2) of the time.
TEST(CollectiveModelTest, LaunchesDependOnTheClock) {
  HardwareSpec hardware = Unmeasured();
  hardware.sm_count = 100;
  hardware.peak_fp32_flops = 2 * 1.9e9 * 256 * 100;
  const double seconds = CollectiveModel(hardware)(Collective::kAllReduce, 2, 8800).seconds;
  EXPECT_NEAR(seconds / kUs, 4.3 / std::sqrt(2) + 0.2, 1e-6);
}

TEST(CollectiveModelTest, LinksOfTheHostsBusOnlyHaveTheRing) {
  HardwareSpec hardware = Unmeasured();
  hardware.pcie_bandwidth_bytes_per_s = 100e9;
  const CollectiveModel model(hardware);
  EXPECT_NEAR(model(Collective::kAllReduce, 2, 1e6).seconds / kUs, 3 + 2 + 10, 1e-6);
  EXPECT_NEAR(model(Collective::kAllGather, 8, 1e6).seconds / kUs, 3 + 7 + 8.75, 1e-6);
}

TEST(CollectiveModelTest, RefusesCurvesThatAreNone) {
  CollectiveCurve short_curve = Curve(2, 1);
  short_curve.microseconds.pop_back();
  EXPECT_THROW(Validate(CollectiveProfile{.curves = {short_curve}}), InputError);
  CollectiveCurve descending = Curve(2, 1);
  descending.bytes = {4096, 1024, 1 << 20};
  EXPECT_THROW(Validate(CollectiveProfile{.curves = {descending}}), InputError);
  EXPECT_NO_THROW(Validate(CollectiveProfile{.curves = {Curve(2, 1)}}));
}

// SwiGLU of 10 rows of 1,000: two inputs and one output of 2 bytes, 60 kB; at half of 1 TB/s
// 0.12 us, after 2 us.
TEST(MemoryBoundModelTest, TimeIsLatencyAndBytes) {
  HardwareSpec hardware;
  hardware.memory_bandwidth_bytes_per_s = 1e12;
  hardware.elementwise_latency_s = 2e-6;
  hardware.elementwise_bandwidth_fraction = 0.5;
  const MemoryBoundShape shape{.intermediate = 1000};
  const MemoryBoundModel model(hardware);
  EXPECT_NEAR(model(MemoryBoundKernel::kActivation, shape, 10).seconds / kUs, 2.12, 1e-9);
  EXPECT_EQ(model(MemoryBoundKernel::kNorm, shape, 0).seconds, 0);
  const MemoryBoundModel fitted(hardware,
                                {.kernels = {{MemoryBoundKernel::kActivation, 1, 1, 0.1}}});
  EXPECT_NEAR(fitted(MemoryBoundKernel::kActivation, shape, 10).seconds / kUs, 1.06, 1e-9);
}

}  // namespace
}  // namespace twin::sim
