#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/hash.h"
#include "core/random.h"
#include "core/statistics.h"

namespace twin {
namespace {

TEST(StatisticsTest, AQuantileIsLinearBetweenTheSortedValues) {
  // Sorted 1 2 3 4 5: position 0.9 * 4 = 3.6 lies between 4 and 5.
  EXPECT_DOUBLE_EQ(Quantile({5, 3, 1, 4, 2}, 0.9), 4.6);
  EXPECT_DOUBLE_EQ(Quantile({5, 3, 1, 4, 2}, 0), 1);
  EXPECT_DOUBLE_EQ(Quantile({5, 3, 1, 4, 2}, 1), 5);
  EXPECT_DOUBLE_EQ(Quantile({7}, 0.5), 7);
}

// numpy.median([1, 2, 3, 10]) is 2.5: neither of the two values in the middle.
TEST(StatisticsTest, TheMedianOfAnEvenNumberOfValuesIsBetweenTheTwoInTheMiddle) {
  EXPECT_DOUBLE_EQ(Median({10, 1, 3, 2}), 2.5);
  EXPECT_DOUBLE_EQ(Median({10, 1, 3}), 3);
}

TEST(StatisticsTest, AQuantileOfNoValuesIsZeroWhereThatIsAskedFor) {
  EXPECT_EQ(QuantileOrZero({}, 0.9), 0);
  EXPECT_DOUBLE_EQ(QuantileOrZero({2, 4}, 0.25), 2.5);
}

// A continuous distribution gives 20 values in random order: each is the smallest with the
// probability 1/20: 19 values leave 5 % below and 5 % above.
TEST(StatisticsTest, TheEndsOf19ValuesHoldTheNextOneWith90Percent) {
  std::vector<double> values;
  for (int i = 19; i >= 1; --i) values.push_back(i * i);
  const PredictionInterval interval = PredictionIntervalOf(values);
  EXPECT_EQ(interval.low, 1);
  EXPECT_EQ(interval.high, 361);
}

// Positions 21 * 0.05 = 1.05 and 19.95 of 20; 40 * 0.05 = 2 and 38 of 39.
TEST(StatisticsTest, MoreThan19ValuesLieAtPositionsOfOneMore) {
  std::vector<double> values;
  for (int i = 1; i <= 20; ++i) values.push_back(10 * i);
  EXPECT_DOUBLE_EQ(PredictionIntervalOf(values).low, 10.5);
  EXPECT_DOUBLE_EQ(PredictionIntervalOf(values).high, 199.5);
  for (int i = 21; i <= 39; ++i) values.push_back(10 * i);
  EXPECT_DOUBLE_EQ(PredictionIntervalOf(values).low, 20);
  EXPECT_DOUBLE_EQ(PredictionIntervalOf(values).high, 380);
}

// 10,000 times, one uniform value is judged by the interval of n others. Its probability to lie
// below a value is that value, which makes a line between two of them exact. Binomial: three
// standard deviations are 0.9 %.
TEST(StatisticsTest, AnIntervalOfNValuesHoldsTheNextOneIn90PercentOfAllCases) {
  Random random(1, "statistics");
  for (const int n : {19, 20, 36, 100}) {
    int inside = 0;
    for (int i = 0; i < 10'000; ++i) {
      std::vector<double> values;
      for (int k = 0; k < n; ++k) values.push_back(random.UnitReal());
      const PredictionInterval interval = PredictionIntervalOf(values);
      const double next = random.UnitReal();
      if (interval.low <= next && next <= interval.high) ++inside;
    }
    EXPECT_NEAR(inside / 10'000.0, 0.9, 0.009) << n;
  }
}

TEST(StatisticsTest, AVarianceCountsOneDegreeOfFreedomLess) {
  // Mean 3; deviations -2, 0, 2: 8 / 2.
  EXPECT_DOUBLE_EQ(Mean(std::vector<double>{1, 3, 5}), 3);
  EXPECT_DOUBLE_EQ(SampleVariance(std::vector<double>{1, 3, 5}), 4);
  EXPECT_TRUE(std::isnan(SampleVariance(std::vector<double>{1})));
}

TEST(StatisticsDeathTest, RefusesQuantilesOfNoValuesAndSharesOutsideOfZeroToOne) {
  EXPECT_DEATH((void)Quantile({}, 0.5), "check failed");
  EXPECT_DEATH((void)Quantile({1}, 1.01), "check failed");
  EXPECT_DEATH((void)PredictionIntervalOf(std::vector<double>(18, 1.0)), "check failed");
}

TEST(HexTest, WritesAllSixteenDigits) {
  EXPECT_EQ(HexText(0), "0000000000000000");
  EXPECT_EQ(HexText(0x0123456789ABCDEFull), "0123456789abcdef");
}

}  // namespace
}  // namespace twin
