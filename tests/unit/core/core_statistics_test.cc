#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/hash.h"
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

TEST(StatisticsTest, AVarianceCountsOneDegreeOfFreedomLess) {
  // Mean 3; deviations -2, 0, 2: 8 / 2.
  EXPECT_DOUBLE_EQ(Mean(std::vector<double>{1, 3, 5}), 3);
  EXPECT_DOUBLE_EQ(SampleVariance(std::vector<double>{1, 3, 5}), 4);
  EXPECT_TRUE(std::isnan(SampleVariance(std::vector<double>{1})));
}

TEST(StatisticsDeathTest, RefusesQuantilesOfNoValuesAndSharesOutsideOfZeroToOne) {
  EXPECT_DEATH((void)Quantile({}, 0.5), "check failed");
  EXPECT_DEATH((void)Quantile({1}, 1.01), "check failed");
}

TEST(HexTest, WritesAllSixteenDigits) {
  EXPECT_EQ(HexText(0), "0000000000000000");
  EXPECT_EQ(HexText(0x0123456789ABCDEFull), "0123456789abcdef");
}

}  // namespace
}  // namespace twin
