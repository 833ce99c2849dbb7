// Statistics of simulation output, on values worked out by hand.
#include "run/many/output_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/random.h"

namespace twin::run {
namespace {

TEST(StatisticsTest, TheMeanOfReplicationsHasStudentsInterval) {
  // Mean 3, s^2 = 2.5, t with 4 degrees of freedom at 0.975: 2.77645 (any table).
  const std::vector<double> values = {1, 2, 3, 4, 5};
  const Interval mean = MeanInterval(values, 0.95);
  EXPECT_DOUBLE_EQ(mean.value, 3);
  EXPECT_NEAR(mean.high - 3, 2.77645 * std::sqrt(2.5 / 5), 1e-4);
  EXPECT_NEAR(mean.low, 6 - mean.high, 1e-12);
  EXPECT_EQ(mean.n, 5u);
}

// Mean 2, standard error 1, third moment 5 / 12 * 60 = 25, skewness 25 / 5^1.5 = 2.23607, so that
// a = 1/6 and Willink's ends are 2 - 3 (cbrt(1 + t - 1/6) - 1) and 2 - 3 (cbrt(1 - t - 1/6) - 1)
// with t = 2.776445: 0.3978 and 8.7435. Student's are 2 -+ 2.776445.
TEST(StatisticsTest, AnIntervalOfSkewedValuesReachesFartherToTheLongTail) {
  const std::vector<double> values = {1, 1, 1, 1, 6};
  const Interval mean = MeanInterval(values, 0.95);
  EXPECT_NEAR(mean.low, -0.776445, 1e-5);
  EXPECT_NEAR(mean.high, 8.7435, 1e-3);
}

// Logarithms: mean 0.358352, standard error 0.358352; exp(0.358352 (1 - 2.776445)) = 0.529090.
TEST(StatisticsTest, APositiveQuantityHasAPositiveLowerEnd) {
  const std::vector<double> values = {1, 1, 1, 1, 6};
  EXPECT_NEAR(MeanInterval(values, 0.95, ValueRange::kNonNegative).low, 0.529090, 1e-5);
  const std::vector<double> with_zero = {0, 1, 1, 1, 6};
  EXPECT_EQ(MeanInterval(with_zero, 0.95, ValueRange::kNonNegative).low, 0);
}

TEST(StatisticsTest, TheErrorAtWhichAnIntervalEndsAtZero) {
  // 3 / sqrt(2.5 / 5) = 4.242641 of Student's t with 4 degrees of freedom: 2 * 0.0066177.
  EXPECT_NEAR(MeanPValue(std::vector<double>{1, 2, 3, 4, 5}), 0.0132355, 1e-6);
  // Moved so that 95 % end at 0.
  EXPECT_NEAR(MeanPValue(std::vector<double>{1.776445, 1.776445, 1.776445, 1.776445, 6.776445}),
              0.05, 1e-6);
  EXPECT_EQ(MeanPValue(std::vector<double>{2, 2}), 0);
  EXPECT_EQ(MeanPValue(std::vector<double>{0, 0}), 1);
  EXPECT_TRUE(std::isnan(MeanPValue(std::vector<double>{1})));
}

// n_eff = 0.16 / (0.005 / 5) = 160; Wilson with t = 2.776445: [0.699352, 0.873070]. Student's upper
// end is 0.8 + 2.776445 * 0.0316228.
TEST(StatisticsTest, AProportionHasWilsonsIntervalToo) {
  const std::vector<double> values = {0.8, 0.9, 0.7, 0.8, 0.8};
  const Interval share = MeanInterval(values, 0.95, ValueRange::kProportion);
  EXPECT_NEAR(share.low, 0.699352, 1e-5);
  EXPECT_NEAR(share.high, 0.887799, 1e-5);
}

// 0.05^(1 / 25) = 0.887072.
TEST(StatisticsTest, AProportionOfRunsThatNeverMissHasALowerEnd) {
  const std::vector<double> all(5, 1.0);
  const Interval share = MeanInterval(all, 0.95, ValueRange::kProportion);
  EXPECT_NEAR(share.low, 0.887072, 1e-6);
  EXPECT_EQ(share.high, 1);
  const std::vector<double> none(5, 0.0);
  EXPECT_NEAR(MeanInterval(none, 0.95, ValueRange::kProportion).high, 1 - 0.887072, 1e-6);
}

TEST(StatisticsTest, AProportionStaysWithinItsBounds) {
  const std::vector<double> values = {1, 1, 1, 0.2, 1};
  const Interval share = MeanInterval(values, 0.95, ValueRange::kProportion);
  EXPECT_EQ(share.high, 1);
  EXPECT_GE(share.low, 0);
}

// 0.01 * 3; 0.03 * 2; 0.04 * 1, but no less than the one before.
TEST(StatisticsTest, HolmMultipliesTheSmallestErrorMost) {
  const std::vector<double> adjusted =
      HolmAdjusted(std::vector<double>{0.01, 0.04, std::nan(""), 0.03});
  EXPECT_NEAR(adjusted[0], 0.03, 1e-12);
  EXPECT_NEAR(adjusted[1], 0.06, 1e-12);
  EXPECT_TRUE(std::isnan(adjusted[2]));
  EXPECT_NEAR(adjusted[3], 0.06, 1e-12);
  EXPECT_EQ(HolmAdjusted(std::vector<double>{0.6, 0.9})[0], 1);
}

TEST(StatisticsTest, OneValueHasNoInterval) {
  const std::vector<double> values = {7};
  const Interval mean = MeanInterval(values, 0.95);
  EXPECT_EQ(mean.value, 7);
  EXPECT_TRUE(std::isnan(mean.low) && std::isnan(mean.high));
}

TEST(StatisticsTest, PairedValuesCancelWhatTheyShare) {
  const std::vector<double> a = {2, 4, 8};
  const std::vector<double> b = {1, 2, 4};
  const PairedComparison compared = ComparePaired(a, b, 0.95);
  EXPECT_NEAR(compared.difference.value, 7.0 / 3, 1e-12);
  EXPECT_NEAR(compared.geometric_ratio.value, 2, 1e-12);
  EXPECT_NEAR(compared.geometric_ratio.low, 2, 1e-9);
  EXPECT_NEAR(compared.correlation, 1, 1e-12);
}

TEST(StatisticsTest, TheRatioOfMeansIsWeightedByTheValues) {
  // Means 20 and 10; the pairs' ratios are 10 and 1.1.
  const PairedComparison compared =
      ComparePaired(std::vector<double>{20, 20}, std::vector<double>{2, 18}, 0.95);
  EXPECT_NEAR(compared.ratio.value, 2, 1e-12);
  EXPECT_NEAR(compared.geometric_ratio.value, std::sqrt(20 * 20 / (2.0 * 18)), 1e-12);
}

TEST(StatisticsTest, TheRatioOfProportionalValuesIsSure) {
  const PairedComparison compared =
      ComparePaired(std::vector<double>{20, 22, 24}, std::vector<double>{10, 11, 12}, 0.95);
  EXPECT_NEAR(compared.ratio.low, 2, 1e-6);
  EXPECT_NEAR(compared.ratio.high, 2, 1e-6);
}

TEST(StatisticsTest, ValuesThatAreNoNumbersHaveNoComparison) {
  const PairedComparison compared =
      ComparePaired(std::vector<double>{1, std::nan(""), 3}, std::vector<double>{1, 2, 4}, 0.95);
  EXPECT_TRUE(std::isnan(compared.difference.value));
  EXPECT_TRUE(std::isnan(compared.p_value));
  EXPECT_TRUE(std::isnan(compared.ratio.value));
}

TEST(StatisticsTest, TheRatioOfNothingToSomethingIsZero) {
  const PairedComparison compared =
      ComparePaired(std::vector<double>{0, 0, 0}, std::vector<double>{1, 2, 4}, 0.95);
  EXPECT_EQ(compared.ratio.high, 0);
  EXPECT_TRUE(std::isnan(compared.geometric_ratio.value));
}

// The mean of {1, 2, 4}, 2.33 -+ 3.79, may be 0.
TEST(StatisticsTest, ARatioToWhatMayBeZeroHasNoUpperEnd) {
  const PairedComparison compared =
      ComparePaired(std::vector<double>{2, 4, 8}, std::vector<double>{1, 2, 4}, 0.95);
  EXPECT_EQ(compared.ratio.low, 0);
  EXPECT_TRUE(std::isnan(compared.ratio.high));
}

TEST(StatisticsTest, RatioAndDifferenceNeverDisagree) {
  Random random(3, "pairs");
  int significant = 0;
  for (int study = 0; study < 200; ++study) {
    std::vector<double> a;
    std::vector<double> b;
    for (int run = 0; run < 6; ++run) {
      const double shared = std::exp(random.Normal());
      a.push_back(shared * std::exp(0.2 * random.Normal() + 0.3));
      b.push_back(shared);
    }
    const PairedComparison compared = ComparePaired(a, b, 0.95);
    const bool differs = compared.difference.low > 0 || compared.difference.high < 0;
    EXPECT_EQ(differs, compared.ratio.low > 1 || compared.ratio.high < 1);
    EXPECT_EQ(differs, compared.p_value < 0.05);
    significant += differs ? 1 : 0;
  }
  EXPECT_GT(significant, 10);
  EXPECT_LT(significant, 190);
}

TEST(StatisticsTest, TheSequentialTestWaitsForTenValues) {
  std::vector<double> values(9, 1.0);
  EXPECT_EQ(SequentialSign(values, 0.05), Sign::kUndecided);
  values.push_back(1.0);
  EXPECT_EQ(SequentialSign(values, 0.05), Sign::kPositive);
  for (double& value : values) value = -value;
  EXPECT_EQ(SequentialSign(values, 0.05), Sign::kNegative);
}

// 4.1 % for normal values, looked at after each; at most 5 % is the promise.
TEST(StatisticsTest, TheSequentialTestKeepsItsErrorWhenLookedAtAgainAndAgain) {
  constexpr int kSequences = 1000;
  Random random(7, "sequences");
  int wrong = 0;
  for (int i = 0; i < kSequences; ++i) {
    std::vector<double> values;
    while (values.size() < 200 && SequentialSign(values, 0.05) == Sign::kUndecided)
      values.push_back(random.Normal());
    wrong += SequentialSign(values, 0.05) != Sign::kUndecided ? 1 : 0;
  }
  EXPECT_LT(wrong, 60);  // 50 expected at most, standard deviation 6.9
}

}  // namespace
}  // namespace twin::run
