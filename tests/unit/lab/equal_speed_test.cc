#include "lab/profile/equal_speed.h"

#include <gtest/gtest.h>

namespace twin::lab {
namespace {

// A product of so many rows that took `us` while the probes took `decode_us` and `prefill_us`.
ProfileRow Product(std::int64_t rows, double us, double decode_us, double prefill_us) {
  return {.kind = "operation",
          .name = "gemm_up",
          .size = rows,
          .median_us = us,
          .p10_us = us,
          .p90_us = us,
          .decode_probe_us = decode_us,
          .prefill_probe_us = prefill_us};
}

// Twenty rows in a fast period and ten in one that is slower by half.
TEST(EqualSpeedTest, RowsOfASlowPeriodAreScaledToTheUsualSpeed) {
  Profile profile;
  for (int i = 0; i < 20; ++i) profile.rows.push_back(Product(64, 100, 10, 20));
  for (int i = 0; i < 10; ++i) profile.rows.push_back(Product(64, 150, 11, 30));
  const exec::ProbeSeconds reference = ScaleToOneSpeed(profile);
  EXPECT_DOUBLE_EQ(reference.decode, 10e-6);
  EXPECT_DOUBLE_EQ(reference.prefill, 20e-6);
  for (const ProfileRow& row : profile.rows) EXPECT_DOUBLE_EQ(row.median_us, 100);
}

TEST(EqualSpeedTest, ProductsOfSingleRowsFollowTheDecodeProbe) {
  Profile profile;
  for (int i = 0; i < 20; ++i) profile.rows.push_back(Product(1, 100, 10, 20));
  for (int i = 0; i < 10; ++i) profile.rows.push_back(Product(1, 110, 11, 30));
  ScaleToOneSpeed(profile);
  for (const ProfileRow& row : profile.rows) EXPECT_DOUBLE_EQ(row.median_us, 100);
}

TEST(EqualSpeedTest, StepsAreScaledInAllParts) {
  Profile profile;
  ProfileRow step = Product(0, 300, 10, 20);
  step.kind = "step";
  step.totals = {.prefill_tokens = 8, .prefill_items = 1};
  step.parts_us.fill(30);
  for (int i = 0; i < 20; ++i) profile.rows.push_back(Product(64, 100, 10, 10));
  for (int i = 0; i < 8; ++i) profile.rows.push_back(step);
  ScaleToOneSpeed(profile);
  EXPECT_DOUBLE_EQ(profile.rows.back().median_us, 150);
  for (const double part : profile.rows.back().parts_us) EXPECT_DOUBLE_EQ(part, 15);
}

TEST(EqualSpeedTest, ASingleSlowProbeIsNoise) {
  Profile profile;
  for (int i = 0; i < 20; ++i) profile.rows.push_back(Product(64, 100, 10, i == 7 ? 80 : 20));
  ScaleToOneSpeed(profile);
  for (const ProfileRow& row : profile.rows) EXPECT_DOUBLE_EQ(row.median_us, 100);
}

TEST(EqualSpeedTest, DevicesWithoutAProbeAreLeftAlone) {
  Profile profile;
  profile.rows = {Product(64, 100, 10, 20), Product(64, 150, 0, 0)};
  EXPECT_EQ(ScaleToOneSpeed(profile).prefill, 0);
  EXPECT_EQ(profile.rows.front().median_us, 100);
}

}  // namespace
}  // namespace twin::lab
