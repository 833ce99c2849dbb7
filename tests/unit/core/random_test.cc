#include "core/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <vector>

namespace twin {
namespace {

constexpr int kDraws = 400'000;

struct Moments {
  double mean = 0;
  double variance = 0;
};

Moments Measure(const std::function<double()>& draw) {
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = draw();
    sum += x;
    squares += x * x;
  }
  const double mean = sum / kDraws;
  return {mean, squares / kDraws - mean * mean};
}

// The mean of n draws has the standard error sigma/sqrt(n), the variance of n draws has
// sigma^2 * sqrt((kurtosis - 1)/n); five of them are passed by chance once in two million. The
// seeds are fixed, so a pass is a pass for ever.
void ExpectMoments(const Moments& got, double mean, double variance, double kurtosis) {
  EXPECT_NEAR(got.mean, mean, 5 * std::sqrt(variance / kDraws));
  EXPECT_NEAR(got.variance, variance, 5 * variance * std::sqrt((kurtosis - 1) / kDraws));
}

TEST(RandomTest, SplitMixGivesThePublishedValues) {
  std::uint64_t state =
      1234567;  // reference values: Rosetta Code, "Pseudo-random numbers/Splitmix64"
  EXPECT_EQ(NextSplitMix64(state), 6457827717110365317u);
  EXPECT_EQ(NextSplitMix64(state), 3203168211198807973u);
  EXPECT_EQ(NextSplitMix64(state), 9817491932198370423u);
}

// The first value by hand: rotl(1 + 4, 23) + 1 = 5 * 2^23 + 1. The others are the reference vector
// that the rand_xoshiro crate took from the authors' C code.
TEST(RandomTest, GeneratorGivesThePublishedValues) {
  Random random = Random::FromState({1, 2, 3, 4});
  EXPECT_EQ(random.Next(), 5u * (1u << 23) + 1);
  EXPECT_EQ(random.Next(), 58720359u);
  EXPECT_EQ(random.Next(), 3588806011781223u);
  EXPECT_EQ(random.Next(), 3591011842654386u);
  EXPECT_EQ(random.Next(), 9228616714210784205u);
  EXPECT_EQ(random.Next(), 9973669472204895162u);
}

TEST(RandomTest, EqualSeedsAndNamesGiveEqualSequences) {
  Random a(7, "arrivals");
  Random b(7, "arrivals");
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(a.Next(), b.Next());
}

TEST(RandomTest, SeedAndNameBothChangeTheSequence) {
  const std::uint64_t base = Random(7, "arrivals").Next();
  EXPECT_NE(base, Random(8, "arrivals").Next());
  EXPECT_NE(base, Random(7, "lengths").Next());
}

TEST(RandomTest, ACopyContinuesTheSameSequence) {
  Random a(1, "copy");
  a.Normal();  // leaves a spare value inside
  Random b = a;
  EXPECT_EQ(a.Normal(), b.Normal());
  EXPECT_EQ(a.Next(), b.Next());
}

TEST(RandomTest, UniformIntCoversItsRangeEvenly) {
  Random random(3, "int");
  std::map<std::int64_t, int> counts;
  for (int i = 0; i < 70'000; ++i) ++counts[random.UniformInt(-3, 3)];
  ASSERT_EQ(counts.size(), 7u);
  // Binomial(70000, 1/7): sigma = sqrt(70000 * 6/49) = 92.6.
  for (const auto& [value, count] : counts) EXPECT_NEAR(count, 10'000, 5 * 92.6) << value;
}

TEST(RandomTest, UniformIntReachesTheWholeOfInt64) {
  Random random(3, "wide");
  bool negative = false;
  bool positive = false;
  for (int i = 0; i < 100; ++i) {
    const std::int64_t x = random.UniformInt(INT64_MIN, INT64_MAX);
    negative |= x < 0;
    positive |= x > 0;
  }
  EXPECT_TRUE(negative && positive);
  EXPECT_EQ(random.UniformInt(5, 5), 5);
}

TEST(RandomTest, UniformRealHasItsMoments) {
  Random random(1, "uniform");
  ExpectMoments(Measure([&] { return random.UniformReal(2, 6); }), 4, 16.0 / 12, 1.8);
}

TEST(RandomTest, ExponentialHasItsMoments) {
  Random random(1, "exponential");
  ExpectMoments(Measure([&] { return random.Exponential(3); }), 3, 9, 9);
}

TEST(RandomTest, NormalHasItsMoments) {
  Random random(1, "normal");
  ExpectMoments(Measure([&] { return random.Normal(); }), 0, 1, 3);
}

TEST(RandomTest, LogNormalHasItsMoments) {
  Random random(1, "lognormal");
  const double sigma = 0.5;
  const double q = std::exp(sigma * sigma);  // mean = exp(mu) sqrt(q), variance = mean^2 (q - 1)
  const double mean = std::exp(1.0) * std::sqrt(q);
  const double kurtosis = q * q * q * q + 2 * q * q * q + 3 * q * q - 3;
  ExpectMoments(Measure([&] { return random.LogNormal(1.0, sigma); }), mean, mean * mean * (q - 1),
                kurtosis);
}

TEST(RandomTest, GammaHasItsMomentsOnBothSidesOfShapeOne) {
  for (const double shape : {0.2, 1.0, 3.5}) {
    Random random(1, "gamma");
    ExpectMoments(Measure([&] { return random.Gamma(shape, 2); }), shape * 2, shape * 4,
                  3 + 6 / shape);
  }
}

TEST(RandomTest, WeibullHasItsMoments) {
  for (const double shape : {0.8, 2.0}) {
    Random random(1, "weibull");
    const auto raw = [&](double k) { return std::tgamma(1 + k / shape); };  // E[X^k], scale 1
    const double mean = raw(1);
    const double variance = raw(2) - mean * mean;
    const double fourth =
        raw(4) - 4 * mean * raw(3) + 6 * mean * mean * raw(2) - 3 * mean * mean * mean * mean;
    ExpectMoments(Measure([&] { return random.Weibull(shape, 1); }), mean, variance,
                  fourth / (variance * variance));
  }
}

TEST(ZipfDistributionTest, FollowsThePowerLaw) {
  for (const double exponent : {0.0, 0.9, 1.0, 1.5}) {
    Random random(1, "zipf");
    const ZipfDistribution zipf(5, exponent);
    std::vector<int> counts(6);
    for (int i = 0; i < kDraws; ++i) ++counts.at(static_cast<std::size_t>(zipf.Draw(random)));
    double sum = 0;
    for (int k = 1; k <= 5; ++k) sum += std::pow(k, -exponent);
    for (int k = 1; k <= 5; ++k) {
      const double p = std::pow(k, -exponent) / sum;
      EXPECT_NEAR(counts[static_cast<std::size_t>(k)], kDraws * p,
                  5 * std::sqrt(kDraws * p * (1 - p)))
          << "exponent " << exponent << ", k " << k;
    }
  }
}

TEST(ZipfDistributionTest, OfOneElementGivesOne) {
  Random random(1, "zipf");
  EXPECT_EQ(ZipfDistribution(1, 1.2).Draw(random), 1);
}

TEST(QuantileDistributionTest, InterpolatesBetweenItsPoints) {
  const std::vector<double> probabilities{0, 0.5, 1};
  const std::vector<double> values{10, 20, 100};
  const QuantileDistribution distribution(probabilities, values);
  EXPECT_DOUBLE_EQ(distribution.At(0), 10);
  EXPECT_DOUBLE_EQ(distribution.At(0.25), 15);
  EXPECT_DOUBLE_EQ(distribution.At(0.5), 20);
  EXPECT_DOUBLE_EQ(distribution.At(0.75), 60);
  EXPECT_DOUBLE_EQ(distribution.At(1), 100);
  // Mean of the two linear pieces: 0.5 * 15 + 0.5 * 60 = 37.5.
  // E[X^2] = 0.5 * (mean^2 + width^2/12) of each = 0.5 * (225 + 8.33) + 0.5 * (3600 + 533.33).
  Random random(1, "quantiles");
  const Moments got = Measure([&] { return distribution.Draw(random); });
  const double variance = 0.5 * (225 + 100.0 / 12) + 0.5 * (3600 + 6400.0 / 12) - 37.5 * 37.5;
  EXPECT_NEAR(got.mean, 37.5, 5 * std::sqrt(variance / kDraws));
}

TEST(WeightedChoiceTest, FollowsItsWeightsAndNeverDrawsAZero) {
  const std::vector<double> weights{0, 1, 3, 0};
  const WeightedChoice choice(weights);
  Random random(1, "weights");
  std::vector<int> counts(4);
  for (int i = 0; i < 40'000; ++i) ++counts[choice.Draw(random)];
  EXPECT_EQ(counts[0], 0);
  EXPECT_EQ(counts[3], 0);
  EXPECT_NEAR(counts[1], 10'000, 5 * std::sqrt(40'000 * 0.25 * 0.75));
}

TEST(RandomDeathTest, RefusesAnEmptyRange) {
  Random random(1, "x");
  EXPECT_DEATH(random.UniformInt(2, 1), "check failed: low <= high");
}

}  // namespace
}  // namespace twin
