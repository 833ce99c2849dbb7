#include "apps/profile/speed_normalisation.h"

#include <gtest/gtest.h>

namespace twin::run {
namespace {

// A product of so many rows that took `us` while the probes took `decode_us` and `prefill_us`.
ProfileRow Product(std::int64_t rows, double us, double decode_us, double prefill_us,
                   std::int32_t round = 0) {
  return {.kind = "operation",
          .name = "gemm_up",
          .round = round,
          .size = rows,
          .median_us = us,
          .p10_us = us,
          .p90_us = us,
          .decode_probe_us = decode_us,
          .prefill_probe_us = prefill_us};
}

// Twenty rows of a fast round and ten of one that is slower by half. Each has a probe of its own:
// here and below, the probe that does not count varies.
TEST(SpeedNormalisationTest, RowsOfASlowRoundAreScaledToTheUsualSpeed) {
  Profile profile;
  for (int i = 0; i < 20; ++i) profile.rows.push_back(Product(64, 100, i + 1, 20));
  for (int i = 0; i < 10; ++i) profile.rows.push_back(Product(64, 150, i + 1, 30, 1));
  EXPECT_DOUBLE_EQ(ScaleToOneSpeed(profile).prefill, 20e-6);
  for (const ProfileRow& row : profile.rows) EXPECT_DOUBLE_EQ(row.median_us, 100);
}

TEST(SpeedNormalisationTest, ProductsOfSingleRowsFollowTheDecodeProbe) {
  Profile profile;
  for (int i = 0; i < 20; ++i) profile.rows.push_back(Product(1, 100, 10, i + 1));
  for (int i = 0; i < 10; ++i) profile.rows.push_back(Product(1, 110, 11, i + 1, 1));
  EXPECT_DOUBLE_EQ(ScaleToOneSpeed(profile).decode, 10e-6);
  for (const ProfileRow& row : profile.rows) EXPECT_DOUBLE_EQ(row.median_us, 100);
}

TEST(SpeedNormalisationTest, StepsAreScaledInAllParts) {
  Profile profile;
  for (int i = 0; i < 20; ++i) profile.rows.push_back(Product(64, 100, i + 1, 10));
  for (int i = 0; i < 8; ++i) {
    ProfileRow step = Product(0, 300, i + 1, 20, 1);
    step.kind = "step";
    step.totals = {.prefill_tokens = 8, .prefill_items = 1};
    step.parts_us.fill(30);
    profile.rows.push_back(step);
  }
  ScaleToOneSpeed(profile);
  EXPECT_DOUBLE_EQ(profile.rows.back().median_us, 150);
  for (const double part : profile.rows.back().parts_us) EXPECT_DOUBLE_EQ(part, 15);
}

TEST(SpeedNormalisationTest, ASingleSlowProbeIsNoise) {
  Profile profile;
  for (int i = 0; i < 20; ++i) {
    profile.rows.push_back(Product(64, 100, i + 1, i == 7 ? 80 : 20));
  }
  ScaleToOneSpeed(profile);
  for (const ProfileRow& row : profile.rows) EXPECT_DOUBLE_EQ(row.median_us, 100);
}

// Five products were measured after the slow probe: it stays one probe of twenty.
TEST(SpeedNormalisationTest, RowsThatWereMeasuredTogetherHaveOneProbe) {
  Profile profile;
  for (int i = 0; i < 20; ++i) {
    const int products = i == 7 ? 5 : 1;
    for (int product = 0; product < products; ++product) {
      profile.rows.push_back(Product(64, 100, i + 1, i == 7 ? 80 : 20));
    }
  }
  ScaleToOneSpeed(profile);
  for (const ProfileRow& row : profile.rows) EXPECT_DOUBLE_EQ(row.median_us, 100);
}

TEST(SpeedNormalisationTest, DevicesWithoutAProbeAreLeftAlone) {
  Profile profile;
  profile.rows = {Product(64, 100, 10, 20), Product(64, 150, 0, 0)};
  EXPECT_EQ(ScaleToOneSpeed(profile).prefill, 0);
  EXPECT_EQ(profile.rows.front().median_us, 100);
}

}  // namespace
}  // namespace twin::run
