// Times of mixtures of experts, by hand.
#include "sim/devices/operations/moe_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/input_error.h"
#include "sim/devices/operations/moe_table.h"
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

TEST(MoeModelTest, EvenlySpreadTokensReachAsManyExpertsAsTheyCan) {
  // 16 tokens x 2 experts: 32 of 64, where 64 (1 - (63/64)^32) = 25.3 are expected at random.
  EXPECT_NEAR(MoeClosedForm(IdealHardware(), Ideal(), kShape, 16, MoeRouting::kEven),
              32 * kExpertSeconds, 0.01 * kExpertSeconds);
  EXPECT_NEAR(MoeClosedForm(IdealHardware(), Ideal(), kShape, 16), 25.3 * kExpertSeconds,
              0.1 * kExpertSeconds);
}

// Two experts have shares of 3^0.42 to 3^-0.42, 0.7156 and 0.2844. Two tokens reach
// 2 - 0.2844^2 - 0.7156^2 = 1.407 of them, where 1.5 are expected at random.
TEST(MoeModelTest, TrainedRoutersReachFewerExperts) {
  MoeShape two = kShape;
  two.experts = 2;
  two.experts_per_token = 1;
  EXPECT_NEAR(MoeClosedForm(IdealHardware(), Ideal(), two, 2, MoeRouting::kTrained),
              1.407 * kExpertSeconds, 0.001 * kExpertSeconds);
  EXPECT_NEAR(MoeClosedForm(IdealHardware(), Ideal(), two, 2), 1.5 * kExpertSeconds,
              0.001 * kExpertSeconds);
}

// A token takes no expert twice: of two experts, it has both.
TEST(MoeModelTest, ATokenReachesAsManyExpertsAsItTakes) {
  MoeShape two = kShape;
  two.experts = 2;
  EXPECT_NEAR(MoeClosedForm(IdealHardware(), Ideal(), two, 1, MoeRouting::kTrained),
              2 * kExpertSeconds, 0.001 * kExpertSeconds);
}

// Both of two experts have tokens. Where a mean expert has 8 rows, further tiles of the preferred
// one take 2.4 % more, with 6 none.
TEST(MoeModelTest, PreferredExpertsHaveFurtherTiles) {
  MoeProfile profile;
  profile.fits.push_back({.format = GemmFormat::kBf16, .coefficients = Ideal(), .log_sd = 0.1});
  MoeShape two = kShape;
  two.experts = 2;
  const MoeModel model(IdealHardware(), two, profile);
  EXPECT_NEAR(model(6).seconds, 2 * kExpertSeconds, 1e-3 * kExpertSeconds);
  EXPECT_NEAR(model(8).seconds, 1.024 * 2 * kExpertSeconds, 1e-3 * kExpertSeconds);
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

// Measured on one rank and on two; twice the closed form there, and 1.5 times on one.
MoeProfile Tabulated() {
  MoeProfile profile;
  profile.fits.push_back({.format = GemmFormat::kBf16, .coefficients = Ideal(), .log_sd = 0.3});
  MoeTable table;
  table.tokens = {1, 64};
  table.measured_sd = 0.05;
  table.shape_sd = 0.2;
  const std::vector<double> one = {std::log(1.5), std::log(1.5)};
  const std::vector<double> two = {std::log(2.0), std::log(2.0)};
  table.rows.push_back(PrintMoeRow(kShape, {one, two, {}, {}}));
  profile.tables.push_back(table);
  return profile;
}

TEST(MoeModelTest, AMeasuredShapeTakesItsMeasuredTime) {
  const MoeProfile profile = Tabulated();
  Validate(profile);
  MoeShape half = kShape;
  half.intermediate = kShape.intermediate / 2;
  const auto ratio = [&](const MoeShape& shape, std::int64_t tokens) {
    return MoeModel(IdealHardware(), shape, profile)(tokens).seconds /
           MoeClosedForm(IdealHardware(), Ideal(), shape, tokens, MoeRouting::kTrained);
  };
  // Steps of the text are up to 4 % wide at this size.
  EXPECT_NEAR(ratio(kShape, 1), 1.5, 0.03);
  EXPECT_NEAR(ratio(half, 7), 2, 0.04);
  EXPECT_NEAR(ratio(half, 1000), 1.024 * 2, 0.04);  // further tiles
  EXPECT_EQ(MoeModel(IdealHardware(), kShape, profile)(1).log_sd, 0.05);
}

TEST(MoeModelTest, AnUnmeasuredShapeInheritsFromItsNeighborsWithAWiderInterval) {
  MoeShape between = kShape;
  between.intermediate = 724;  // 1024 / sqrt(2)
  const TimeEstimate estimate = MoeModel(IdealHardware(), between, Tabulated())(64);
  EXPECT_NEAR(
      estimate.seconds / MoeClosedForm(IdealHardware(), Ideal(), between, 64, MoeRouting::kTrained),
      std::sqrt(3.0), 0.06);
  EXPECT_GT(estimate.log_sd, 0.07);
  EXPECT_LT(estimate.log_sd, 0.3);
}

TEST(MoeModelTest, RefusesMalformedTables) {
  for (const char* row : {"4096 1024 64", "4096 1024 64 2", "4096 1024 64 2 #", "4096 0 64 2 ##",
                          "4096 1024 64 2 ## ## ## ## ##"}) {
    MoeProfile profile = Tabulated();
    profile.tables[0].rows = {row};
    EXPECT_THROW(Validate(profile), InputError) << row;
  }
  MoeProfile descending = Tabulated();
  descending.tables[0].tokens = {64, 1};
  EXPECT_THROW(Validate(descending), InputError);
  MoeProfile unfitted = Tabulated();
  unfitted.fits.clear();
  EXPECT_THROW(Validate(unfitted), InputError);
}

}  // namespace
}  // namespace twin::sim
