#include "core/hardware_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/input_error.h"

namespace twin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

HardwareSpec Sound() {
  return {.name = "box",
          .memory_bytes = 1,
          .memory_bandwidth_bytes_per_s = 1,
          .peak_fp32_flops = 1,
          .link_bandwidth_bytes_per_s = 1,
          .inter_node_bandwidth_bytes_per_s = 1,
          .pcie_bandwidth_bytes_per_s = 1,
          .gemm_flops_fraction = 1,
          .gemm_bandwidth_fraction = 1,
          .attention_flops_fraction = 1,
          .attention_bandwidth_fraction = 1,
          .elementwise_bandwidth_fraction = 1,
          .link_bandwidth_fraction = 1,
          .pcie_bandwidth_fraction = 1};
}

TEST(HardwareSpecTest, AcceptsASoundDevice) { EXPECT_NO_THROW(Validate(Sound())); }

TEST(HardwareSpecTest, NeedsNoCountOfMultiprocessorsButRefusesANegativeOne) {
  HardwareSpec spec = Sound();
  EXPECT_EQ(spec.sm_count, 0);
  spec.sm_count = -1;
  EXPECT_THAT([&] { Validate(spec); }, ThrowsMessage<InputError>(HasSubstr("sm_count is -1")));
}

TEST(HardwareSpecTest, RefusesAMissingBandwidthNamingIt) {
  HardwareSpec spec = Sound();
  spec.memory_bandwidth_bytes_per_s = 0;
  EXPECT_THAT([&] { Validate(spec); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("hardware box"),
                                              HasSubstr("memory_bandwidth_bytes_per_s is 0"))));
}

// What no vendor states has defaults.
TEST(HardwareSpecTest, NeedsTheNumbersOfADataSheetAloneAndNamesAllThatAreMissing) {
  HardwareSpec spec;
  spec.name = "new";
  spec.memory_bytes = 1;
  spec.pcie_bandwidth_bytes_per_s = 1;
  EXPECT_THAT([&] { Validate(spec); },
              ThrowsMessage<InputError>(
                  HasSubstr("hardware new: memory_bandwidth_bytes_per_s is 0, must be positive; "
                            "peak_fp32_flops is 0, must be positive; link_bandwidth_bytes_per_s is "
                            "0, must be positive; inter_node_bandwidth_bytes_per_s is 0, must be "
                            "positive")));
  spec.memory_bandwidth_bytes_per_s = spec.peak_fp32_flops = 1;
  spec.link_bandwidth_bytes_per_s = spec.inter_node_bandwidth_bytes_per_s = 1;
  EXPECT_NO_THROW(Validate(spec));
}

TEST(HardwareSpecTest, RefusesAFractionOutsideZeroToOne) {
  HardwareSpec spec = Sound();
  spec.gemm_flops_fraction = 1.01;
  EXPECT_THAT([&] { Validate(spec); },
              ThrowsMessage<InputError>(
                  AllOf(HasSubstr("gemm_flops_fraction"), HasSubstr("within (0, 1]"))));
  spec = Sound();
  spec.link_bandwidth_fraction = 0;
  EXPECT_THROW(Validate(spec), InputError);
}

TEST(HardwareSpecTest, RefusesNegativeAndNotANumber) {
  HardwareSpec spec = Sound();
  spec.gemm_latency_s = -1e-6;
  EXPECT_THROW(Validate(spec), InputError);
  spec = Sound();
  spec.peak_fp32_flops = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(Validate(spec), InputError);
}

}  // namespace
}  // namespace twin
