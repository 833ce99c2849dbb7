// Warm-up and batch means, on values worked out by hand.
#include "run/many/batch_means.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/random.h"
#include "core/statistics.h"

namespace twin::run {
namespace {

// Batches of five equal values.
std::vector<double> Batches(const std::vector<double>& means) {
  std::vector<double> series;
  for (const double mean : means) series.insert(series.end(), 5, mean);
  return series;
}

TEST(BatchMeansTest, MserDropsTheBatchThatIsFarOff) {
  // d = 1: 9 batches about 1/9, (9 - 1/9) / 81 = 0.110; d = 2: 8 / 64 = 0.125; d = 3:
  // (7 - 1/7) / 49 = 0.140; d = 4: 6 / 36 = 0.167; d = 5: 4.8 / 25 = 0.192; d = 0 has the 20 too.
  const MserPoint point = Mser5(Batches({20, 1, -1, 1, -1, 1, -1, 1, -1, 1}));
  EXPECT_EQ(point.observations, 5u);
  EXPECT_FALSE(point.too_short);
}

// Two batches, of which one is dropped, always look steady.
TEST(BatchMeansTest, MserNeedsTenBatches) {
  EXPECT_TRUE(Mser5(Batches({20, 1, -1, 1, -1, 1, -1, 1, -1})).too_short);
  EXPECT_EQ(Mser5(Batches({20, 1})).observations, 0u);
  EXPECT_FALSE(Mser5(Batches({1, -1, 1, -1, 1, -1, 1, -1, 1, -1})).too_short);
}

TEST(BatchMeansTest, MserSaysThatASeriesWithoutSteadyStateIsTooShort) {
  // n equally spaced values give (n^2 - 1) / (12 n), which falls with n: the end is best.
  std::vector<double> rising;
  for (int i = 0; i < 20; ++i) rising.push_back(i);
  EXPECT_TRUE(Mser5(Batches(rising)).too_short);
}

TEST(BatchMeansTest, MserKeepsASteadySeries) {
  const MserPoint point = Mser5(Batches({1, -1, 1, -1, 1, -1, 1, -1, 1, -1}));
  EXPECT_EQ(point.observations, 0u);
  EXPECT_FALSE(point.too_short);
}

TEST(BatchMeansTest, SeriesAreAveragedWhereTheyHaveValues) {
  const double none = std::nan("");
  const std::vector<std::vector<double>> series = {{1, none, 3, none}, {3, none, none, none, 9}};
  EXPECT_EQ(AveragedSeries(series), (std::vector<double>{2, 3}));
}

TEST(BatchMeansTest, VonNeumannsRatioDividesSumsOfSquares) {
  // Differences 1, 1, 1: 3. Deviations -1.5, -0.5, 0.5, 1.5: 5.
  const std::vector<double> values = {1, 2, 3, 4};
  EXPECT_DOUBLE_EQ(VonNeumannRatio(values), 0.6);
}

// Mean 2 and variance 4 (n - 2) / (n^2 - 1), 0.3232 for n = 10: what the test of MeanByBatches
// assumes. The mean over 4000 sequences has a standard deviation of 0.009, their variance of about
// 0.007.
TEST(BatchMeansTest, VonNeumannsRatioOfIndependentValuesHasTheMomentsThatItsTestAssumes) {
  constexpr int kSequences = 4000;
  Random random(3, "ratios");
  std::vector<double> ratios;
  for (int i = 0; i < kSequences; ++i) {
    std::vector<double> values(10);
    for (double& value : values) value = random.Normal();
    ratios.push_back(VonNeumannRatio(values));
  }
  EXPECT_NEAR(Mean(ratios), 2, 0.04);
  EXPECT_NEAR(SampleVariance(ratios), 32.0 / 99, 0.03);
}

TEST(BatchMeansTest, BatchesGrowUntilTheirMeansAreIndependent) {
  // Independent values pass at once, in 30 batches.
  Random random(1, "batches");
  std::vector<double> independent;
  for (int i = 0; i < 3000; ++i) independent.push_back(random.Normal());
  const BatchMeans at_once = MeanByBatches(independent, 0.95);
  EXPECT_TRUE(at_once.independent);
  EXPECT_EQ(at_once.batch_size, 100u);
  EXPECT_EQ(at_once.mean.n, 30u);
  // An autoregressive series whose memory is longer than 100 values does not.
  std::vector<double> dependent;
  double value = 0;
  for (int i = 0; i < 3000; ++i) {
    value = 0.998 * value + random.Normal();
    dependent.push_back(value);
  }
  const BatchMeans later = MeanByBatches(dependent, 0.95);
  EXPECT_GT(later.batch_size, 100u);
}

}  // namespace
}  // namespace twin::run
