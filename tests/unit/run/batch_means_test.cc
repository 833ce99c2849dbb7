// Warm-up and batch means, on values worked out by hand.
#include "run/many/batch_means.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/random.h"

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

// Batches of three equal values, and two values that fill no batch.
std::vector<double> SixteenBatches(const std::vector<double>& means) {
  std::vector<double> series;
  for (const double mean : means) series.insert(series.end(), 3, mean);
  series.insert(series.end(), 2, 1e6);
  return series;
}

// Mean 0, variance 16 / 15, no skewness; neighbours differ, which counts as independence. t with 15
// degrees of freedom at 0.975: 2.13145 (any table).
TEST(BatchMeansTest, IndependentBatchesHaveStudentsInterval) {
  std::vector<double> means;
  for (int i = 0; i < 8; ++i) means.insert(means.end(), {1, -1});
  const Interval mean = MeanByBatches(SixteenBatches(means), 0.95);
  EXPECT_EQ(mean.value, 0);
  EXPECT_NEAR(mean.high, 2.13145 * std::sqrt(1.0 / 15), 1e-5);
  EXPECT_NEAR(mean.low, -mean.high, 1e-12);
  EXPECT_EQ(mean.n, 16u);
}

// 0, 1, ..., 15: squares of the deviations from 7.5 sum to 340, products of neighbours to 276.25,
// so r = 0.8125 and (1 + r) / (1 - r) = 29 / 3. Variance 340 / 15.
TEST(BatchMeansTest, BatchesThatDependOnEachOtherWidenTheInterval) {
  std::vector<double> means;
  for (int i = 0; i < 16; ++i) means.push_back(i);
  const Interval mean = MeanByBatches(SixteenBatches(means), 0.95);
  EXPECT_DOUBLE_EQ(mean.value, 7.5);
  EXPECT_NEAR(mean.high - 7.5, 2.13145 * std::sqrt(340.0 / 15 / 16 * 29 / 3), 1e-4);
  EXPECT_NEAR(7.5 - mean.low, mean.high - 7.5, 1e-9);
}

// 16 and fifteen times 0: mean 1, variance (225 + 15) / 15 = 16, standard error 1. The cubes of the
// deviations sum to 15^3 - 15 = 3360: skewness 16 * 3360 / (15 * 14) / 64 = 4, b = 4 / 24 = 1 / 6.
// G(t) = 3 (cbrt(1 + t - 1 / 6) - 1): 1.3097 at t = 2.13145, -6.2726 at -t.
TEST(BatchMeansTest, AnIntervalOfSkewedBatchesReachesFurtherTowardsLargeValues) {
  std::vector<double> means(16, 0.0);
  means[0] = 16;
  const Interval mean = MeanByBatches(SixteenBatches(means), 0.95);
  EXPECT_DOUBLE_EQ(mean.value, 1);
  EXPECT_NEAR(mean.low, 1 - 1.3097, 1e-3);
  EXPECT_NEAR(mean.high, 1 + 6.2726, 1e-3);
}

TEST(BatchMeansTest, FewerValuesThanBatchesHaveNoInterval) {
  EXPECT_TRUE(std::isnan(MeanByBatches(std::vector<double>(15, 1.0), 0.95).low));
  EXPECT_EQ(MeanByBatches(std::vector<double>(16, 1.0), 0.95).high, 1);
}

// A queue's values: an autoregression with a correlation time of 20, as exponentials, 600 times
// that long. 400 series; 95 % of them have a standard deviation of 1.1 %.
TEST(BatchMeansTest, IntervalsHoldTheMeanAsOftenAsTheySay) {
  constexpr int kSeries = 400;
  constexpr double kStep = 0.95;
  Random random(5, "coverage");
  int holds = 0;
  for (int i = 0; i < kSeries; ++i) {
    std::vector<double> values;
    double state = random.Normal();
    for (int k = 0; k < 12'000; ++k) {
      values.push_back(std::exp(state));
      state = kStep * state + std::sqrt(1 - kStep * kStep) * random.Normal();
    }
    const Interval mean = MeanByBatches(values, 0.95);
    holds += mean.low <= std::exp(0.5) && std::exp(0.5) <= mean.high ? 1 : 0;
  }
  EXPECT_GE(holds, 0.92 * kSeries);
  EXPECT_LE(holds, 0.98 * kSeries);
}

}  // namespace
}  // namespace twin::run
