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
  EXPECT_NEAR(compared.ratio.value, 2, 1e-12);
  EXPECT_NEAR(compared.ratio.low, 2, 1e-9);
  EXPECT_NEAR(compared.correlation, 1, 1e-12);
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
