#include "kernels/sampling.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "tests/unit/kernels/kernel_cases.h"

namespace twin::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// How often each token comes in `draws` positions of one seed.
std::vector<int> Counts(const std::vector<float>& logits, SamplingParameters parameters,
                        int draws) {
  std::vector<int> counts(logits.size());
  for (int i = 0; i < draws; ++i) {
    parameters.position = static_cast<std::uint64_t>(i);
    ++counts[static_cast<std::size_t>(SampleToken(logits, parameters))];
  }
  return counts;
}

TEST(SamplingTest, TheLowestOfEqualLogitsWinsAndNanNever) {
  EXPECT_EQ(Argmax(std::array{1.0F, 3.0F, 3.0F, 2.0F}), 1);
  EXPECT_EQ(Argmax(std::array{kNan, -5.0F, kNan, -4.0F}), 3);
  EXPECT_EQ(Argmax(std::array{-std::numeric_limits<float>::infinity()}), 0);
}

TEST(SamplingTest, ZeroTemperatureIsTheArgmaxWhateverTheSeed) {
  const std::vector<float> logits = RandomFloats("logits", 1000);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(SampleToken(logits, {.temperature = 0, .seed = seed}), Argmax(logits));
    EXPECT_EQ(SampleToken(logits, {.temperature = 5, .top_k = 1, .seed = seed}), Argmax(logits));
  }
}

// Probabilities 1/2, 1/4, 1/8, 1/8: logarithms 0, -1, -2, -2 of base 2.
TEST(SamplingTest, LogProbabilityByHand) {
  const float ln2 = std::log(2.0F);
  const std::array logits = {5 - ln2, 5.0F, 5 - 2 * ln2, 5 - 2 * ln2};
  EXPECT_NEAR(LogProbability(logits, 1), std::log(0.5), 1e-6);
  EXPECT_NEAR(LogProbability(logits, 0), std::log(0.25), 1e-6);
  EXPECT_NEAR(LogProbability(logits, 3), std::log(0.125), 1e-6);
}

// Frequencies of 20000 draws lie within four standard deviations, sqrt(p (1 - p) / 20000) < 0.0036.
TEST(SamplingTest, DrawsTokensWithTheirProbabilities) {
  const float ln2 = std::log(2.0F);
  const std::vector<float> logits = {5 - ln2, 5.0F, 5 - 2 * ln2, 5 - 2 * ln2};
  constexpr int kDraws = 20000;
  const std::vector<int> counts = Counts(logits, {.temperature = 1, .seed = 3}, kDraws);
  const std::array expected = {0.25, 0.5, 0.125, 0.125};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(counts[i] / double{kDraws}, expected[i], 0.0145);
  // At temperature 1/2 the weights are squared: 4, 16, 1, 1 of 22.
  const std::vector<int> cold = Counts(logits, {.temperature = 0.5F, .seed = 3}, kDraws);
  EXPECT_NEAR(cold[1] / double{kDraws}, 16.0 / 22, 0.0145);
  EXPECT_NEAR(cold[3] / double{kDraws}, 1.0 / 22, 0.0145);
}

TEST(SamplingTest, TopKKeepsTheLikeliestAndOfEqualOnesTheLowest) {
  const std::vector<float> logits = {1, 2, 1, 1, 3};
  const std::vector<int> counts = Counts(logits, {.temperature = 2, .top_k = 3}, 2000);
  EXPECT_GT(counts[0], 0);
  EXPECT_GT(counts[1], 0);
  EXPECT_EQ(counts[2], 0);
  EXPECT_EQ(counts[3], 0);
  EXPECT_GT(counts[4], 0);
}

// Probabilities 1/2, 1/4, 1/8, 1/8: 0.5 are reached by one token, 0.51 by two.
TEST(SamplingTest, TopPKeepsTheFewestThatReachIt) {
  const float ln2 = std::log(2.0F);
  const std::vector<float> logits = {-ln2, 0, -2 * ln2, -2 * ln2};
  EXPECT_EQ(Counts(logits, {.temperature = 1, .top_p = 0.49F}, 1000)[1], 1000);
  const std::vector<int> two = Counts(logits, {.temperature = 1, .top_p = 0.6F}, 3000);
  EXPECT_EQ(two[0] + two[1], 3000);
  EXPECT_NEAR(two[1] / 3000.0, 2.0 / 3, 0.035);
}

TEST(SamplingTest, ANucleusLargerThanTheFirstSortIsComplete) {
  const std::vector<float> logits(1000, 1.0F);  // all equal: half of them reach 0.5
  std::set<std::int32_t> seen;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    seen.insert(SampleToken(logits, {.temperature = 1, .top_p = 0.4999F, .position = i}));
  }
  EXPECT_EQ(seen.size(), 500U);
  EXPECT_EQ(*seen.rbegin(), 499);
}

TEST(SamplingTest, AskingForMoreTokensThanThereAreIsAskingForAll) {
  const std::vector<float> logits = {1, 1};
  const std::vector<int> counts = Counts(logits, {.temperature = 1, .top_k = 50}, 1000);
  EXPECT_GT(counts[0], 400);
  EXPECT_GT(counts[1], 400);
}

TEST(SamplingTest, UniformNumbersDependOnSeedAndPositionAlone) {
  EXPECT_EQ(UniformAt(1, 2), UniformAt(1, 2));
  EXPECT_NE(UniformAt(1, 2), UniformAt(2, 1));
  double sum = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    for (std::uint64_t position = 0; position < 100; ++position) {
      const double u = UniformAt(seed, position);
      ASSERT_GE(u, 0);
      ASSERT_LT(u, 1);
      sum += u;
    }
  }
  // Four standard deviations of a mean of 10000 uniforms: 4 / sqrt(12 * 10000) = 0.0116.
  EXPECT_NEAR(sum / 10000, 0.5, 0.0116);
}

TEST(SamplingTest, ABatchGivesEachRowItsOwnToken) {
  ThreadPool pool(3);
  TestMatrix logits(7, 333);
  logits.FillRandom("logits", 2);
  std::vector<SamplingParameters> parameters;
  for (std::uint64_t i = 0; i < 7; ++i) {
    parameters.push_back({.temperature = i == 3 ? 0.0F : 1.0F,
                          .top_k = static_cast<std::int32_t>(i * 10),
                          .top_p = i == 5 ? 0.7F : 1.0F,
                          .seed = i,
                          .position = 9});
  }
  std::vector<std::int32_t> tokens(7);
  SampleTokens(pool, logits.view, parameters, tokens);
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(tokens[i],
              SampleToken({logits.view.Row(static_cast<std::int64_t>(i)), 333}, parameters[i]));
  }
}

}  // namespace
}  // namespace twin::kernels
