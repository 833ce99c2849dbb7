#include "exec/profile/spread.h"

#include <gtest/gtest.h>

namespace twin::exec {
namespace {

TEST(SpreadTest, RelativeSpreadIsTheDecileRangeOverTheMedian) {
  const Spread spread = SpreadOf({1, 2, 3, 4, 5});
  EXPECT_DOUBLE_EQ(spread.median, 3);
  EXPECT_EQ(spread.count, 5);
  EXPECT_DOUBLE_EQ(spread.relative(), (4.6 - 1.4) / 3);
}

TEST(SpreadTest, MiddleWeightsLeaveOutATenthAtEitherEnd) {
  // Of 10 values the least and the largest; the order is that of the values.
  const std::vector<double> ten = {100, 2, 3, 4, 5, 6, 7, 8, 9, 1};
  const std::vector<double> weights = MiddleWeights(ten);
  EXPECT_NEAR(weights[0], 0, 1e-12);
  EXPECT_NEAR(weights[9], 0, 1e-12);
  EXPECT_NEAR(WeightedMean(ten, weights), 5.5, 1e-12);
  // Of 3 values 0.3 at either end: (0.7 x 1 + 2 + 0.7 x 6) / 2.4.
  const std::vector<double> three = {6, 1, 2};
  EXPECT_NEAR(WeightedMean(three, MiddleWeights(three)), 6.9 / 2.4, 1e-12);
  EXPECT_NEAR(WeightedMean({7}, MiddleWeights({7})), 7, 1e-12);
  // Equal values share the middle in the order in which they come.
  const std::vector<double> equal(5, 3.0);
  EXPECT_NEAR(WeightedMean(equal, MiddleWeights(equal)), 3, 1e-12);
}

TEST(RepeatTest, StopsAtTheLeastCountWhenAllAreEqual) {
  EXPECT_EQ(Repeat({.count_min = 4, .count_max = 9}, [] { return 0.1; }).size(), 4U);
}

TEST(RepeatTest, GoesOnWhileTheMedianIsUncertain) {
  // 1 and 2 in turn: the quartiles stay 1 apart, so 0.5 / sqrt(n) <= 0.1 * 1.5 from n = 12 on.
  int calls = 0;
  const auto values =
      Repeat({.count_min = 2, .count_max = 100, .seconds_max = 1e9, .relative_error = 0.1},
             [&] { return ++calls % 2 == 0 ? 2.0 : 1.0; });
  EXPECT_EQ(values.size(), 12U);
}

TEST(RepeatTest, StopsAtTheMostCountAndAtTheTimeLimit) {
  int calls = 0;
  const auto noisy = [&] { return static_cast<double>(++calls % 5) + 1; };
  EXPECT_EQ(Repeat({.count_min = 2, .count_max = 7, .seconds_max = 1e9, .relative_error = 0}, noisy)
                .size(),
            7U);
  EXPECT_EQ(Repeat({.count_min = 5, .count_max = 100, .seconds_max = 2}, [] { return 3.0; }).size(),
            1U);
}

}  // namespace
}  // namespace twin::exec
