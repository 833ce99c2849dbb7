#include "exec/model/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace twin::exec {
namespace {

constexpr double kPi = std::numbers::pi;

TEST(RopeTest, FrequenciesFallGeometrically) {
  const auto frequencies = InverseFrequencies({.theta = 10000}, 8);
  ASSERT_EQ(frequencies.size(), 4U);
  EXPECT_DOUBLE_EQ(frequencies[0], 1);
  EXPECT_DOUBLE_EQ(frequencies[1], 0.1);  // 10000^(-2/8)
  EXPECT_DOUBLE_EQ(frequencies[3], 0.001);
}

TEST(RopeTest, LinearScalingStretchesAll) {
  const auto frequencies =
      InverseFrequencies({.theta = 100, .scaling = RopeConfig::Scaling::kLinear, .factor = 4}, 4);
  EXPECT_DOUBLE_EQ(frequencies[0], 0.25);
  EXPECT_DOUBLE_EQ(frequencies[1], 0.025);
}

TEST(RopeTest, Llama3KeepsShortWavesStretchesLongOnesAndBlendsBetween) {
  RopeConfig rope{.theta = 10000, .scaling = RopeConfig::Scaling::kLlama3, .factor = 8};
  rope.low_factor = 1;
  rope.high_factor = 4;
  // Wavelengths 2 pi * (1, 10, 100, 1000), the third between L/4 and L.
  rope.original_positions = 2 * kPi * 200;
  const auto frequencies = InverseFrequencies(rope, 8);
  EXPECT_DOUBLE_EQ(frequencies[0], 1);
  EXPECT_DOUBLE_EQ(frequencies[1], 0.1);
  // L / wavelength = 2, so the blend is (2 - 1) / (4 - 1) = 1/3 of the original.
  EXPECT_NEAR(frequencies[2], 2.0 / 3 * 0.01 / 8 + 1.0 / 3 * 0.01, 1e-15);
  EXPECT_DOUBLE_EQ(frequencies[3], 0.001 / 8);
}

TEST(RopeTest, YarnKeepsFastPairsAndStretchesSlowOnes) {
  RopeConfig rope{.theta = 10000, .scaling = RopeConfig::Scaling::kYarn, .factor = 4};
  rope.beta_fast = 20;
  rope.beta_slow = 2;
  rope.truncates = false;
  // A pair turns L / (2 pi) * frequency times within L positions, so pair i = 4 * log10(200 /
  // rotations): 20 rotations are pair 4, 2 rotations pair 8.
  rope.original_positions = 2 * kPi * 200;
  const auto frequencies = InverseFrequencies(rope, 32);
  EXPECT_DOUBLE_EQ(frequencies[3], std::pow(10, -0.75));
  EXPECT_NEAR(frequencies[8], 0.01 / 4, 1e-15);
  EXPECT_NEAR(frequencies[6], std::pow(10, -1.5) * (0.5 / 4 + 0.5), 1e-15);
}

}  // namespace
}  // namespace twin::exec
