#include "core/quantile.h"

#include <gtest/gtest.h>

#include "core/hex.h"

namespace twin {
namespace {

TEST(QuantileTest, IsLinearBetweenTheSortedValues) {
  // Sorted 1 2 3 4 5: position 0.9 * 4 = 3.6 lies between 4 and 5.
  EXPECT_DOUBLE_EQ(Quantile({5, 3, 1, 4, 2}, 0.9), 4.6);
  EXPECT_DOUBLE_EQ(Quantile({5, 3, 1, 4, 2}, 0), 1);
  EXPECT_DOUBLE_EQ(Quantile({5, 3, 1, 4, 2}, 1), 5);
  EXPECT_DOUBLE_EQ(Quantile({7}, 0.5), 7);
}

// numpy.median([1, 2, 3, 10]) is 2.5: neither of the two values in the middle.
TEST(QuantileTest, TheMedianOfAnEvenNumberOfValuesIsBetweenTheTwoInTheMiddle) {
  EXPECT_DOUBLE_EQ(Quantile({10, 1, 3, 2}, 0.5), 2.5);
}

TEST(QuantileDeathTest, RefusesNoValuesAndSharesOutsideOfZeroToOne) {
  EXPECT_DEATH((void)Quantile({}, 0.5), "check failed");
  EXPECT_DEATH((void)Quantile({1}, 1.01), "check failed");
}

TEST(HexTest, WritesAllSixteenDigits) {
  EXPECT_EQ(HexText(0), "0000000000000000");
  EXPECT_EQ(HexText(0x0123456789ABCDEFull), "0123456789abcdef");
}

}  // namespace
}  // namespace twin
