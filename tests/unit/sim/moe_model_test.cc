// Times of mixtures of experts, by hand.
#include "sim/cost/operations/moe_model.h"

#include <gtest/gtest.h>

#include "tests/unit/sim/test_hardware.h"

namespace twin::sim {
namespace {

// 64 experts of 4096 x 1024 x 3 bf16 weights: 25.2 MB each, 25.2 us at 1 TB/s.
constexpr MoeShape kShape{
    .hidden = 4096, .intermediate = 1024, .experts = 64, .experts_per_token = 2};
constexpr double kExpertSeconds = 3.0 * 4096 * 1024 * 2 / 1e12;

MoeCoefficients Ideal() {
  return {.latency_s = 0,
          .expert_s = 0,
          .bandwidth_fraction = 1,
          .flops_fraction = 1,
          .spread = 1,
          .padding_rows = 0,
          .overlap = 100,
          .activation_passes = 0};
}

TEST(MoeModelTest, FewTokensReadTheWeightsOfTheirExpertsAlone) {
  // 2 pairs, 64 (1 - (63/64)^2) = 1.98 experts.
  EXPECT_NEAR(MoeClosedForm(IdealHardware(), Ideal(), kShape, 1), 1.984 * kExpertSeconds,
              0.01 * kExpertSeconds);
  // 8,192 pairs reach all experts; compute: 8192 x 25.2 Mflop at 1 PFLOP/s = 206 us, less.
  EXPECT_NEAR(MoeClosedForm(IdealHardware(), Ideal(), kShape, 4096), 64 * kExpertSeconds,
              0.01 * kExpertSeconds);
}

TEST(MoeModelTest, ConcentratedTokensReadFewerWeights) {
  MoeCoefficients concentrated = Ideal();
  concentrated.spread = 0.5;
  EXPECT_LT(MoeClosedForm(IdealHardware(), concentrated, kShape, 16),
            0.8 * MoeClosedForm(IdealHardware(), Ideal(), kShape, 16));
}

TEST(MoeModelTest, ManyTokensTakeTheTimeOfTheirProducts) {
  // 2 x 2^18 pairs of 25.2 Mflop at 1 PFLOP/s: 13.2 ms; the weights: 1.6 ms.
  const double seconds = 2.0 * (1 << 18) * 6 * 4096 * 1024 / 1e15;
  EXPECT_NEAR(MoeClosedForm(IdealHardware(), Ideal(), kShape, 1 << 18), seconds, 0.01 * seconds);
}

TEST(MoeModelTest, AnUnmeasuredFormatHasAWiderInterval) {
  MoeProfile profile;
  profile.fits.push_back({.format = GemmFormat::kBf16, .coefficients = Ideal(), .log_sd = 0.1});
  MoeShape fp8 = kShape;
  fp8.format = GemmFormat::kFp8;
  EXPECT_EQ(MoeModel(IdealHardware(), kShape, profile)(64).log_sd, 0.1);
  EXPECT_GT(MoeModel(IdealHardware(), fp8, profile)(64).log_sd, 0.3);
  EXPECT_GT(MoeModel(IdealHardware(), kShape)(64).log_sd, 0.3);
}

}  // namespace
}  // namespace twin::sim
