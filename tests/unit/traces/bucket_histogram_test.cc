// Histograms of ranges: where a quantile lies, and whole numbers with their counts and mean.
// Samples of /metrics.
#include "traces/bucket_histogram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "traces/prometheus_text.h"

namespace twin {
namespace {

using ::testing::ElementsAre;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Rank 90 of 100 +- 1.96 sqrt(100 0.9 0.1) = 5.9: 84 to 96. The first bucket ends at 80.
TEST(BucketHistogramTest, AQuantileLiesWithinTheBucketsOfItsRanks) {
  const BucketHistogram histogram{
      .buckets = {{0, 10, 80}, {10, 20, 15}, {20, 50, 5}}, .count = 100, .sum = 900};
  const QuantileRange p90 = histogram.Quantile(0.9);
  EXPECT_EQ(p90.above, 10);
  EXPECT_EQ(p90.up_to, 50);  // rank 96 is beyond 95
  EXPECT_NEAR(p90.middle, 10 + 10 * 10 / 15.0, 1e-12);
  const QuantileRange median = histogram.Quantile(0.5);
  EXPECT_EQ(median.above, 0);
  EXPECT_EQ(median.up_to, 10);
  EXPECT_NEAR(median.middle, 10 * 50 / 80.0, 1e-12);
}

TEST(BucketHistogramTest, TheEndlessBucketHasNoMiddle) {
  const BucketHistogram histogram{.buckets = {{5, kInfinity, 4}}, .count = 4, .sum = 100};
  EXPECT_EQ(histogram.Quantile(0.5).middle, 5);
  EXPECT_EQ(histogram.Quantile(0.5).up_to, kInfinity);
}

// The sum of 24 is half way between the least, 2 0 + 2 10, and the largest, 2 10 + 2 20, at 4 / 40.
TEST(CountsOfTest, ValuesAreAtOnePlaceOfTheirBuckets) {
  const BucketHistogram histogram{.buckets = {{0, 10, 2}, {10, 20, 2}}, .count = 4, .sum = 24};
  EXPECT_THAT(CountsOf(histogram), ElementsAre(1, 1, 11, 11));
}

TEST(CountsOfTest, RoundingKeepsTheMean) {
  const BucketHistogram histogram{.buckets = {{100, 200, 10}}, .count = 10, .sum = 1254};
  const auto counts = CountsOf(histogram);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), 1254);
  EXPECT_THAT(counts, ::testing::Each(::testing::AnyOf(125, 126)));
}

// The finite bucket is full at 10; 24 of 34 are left for the two above 10.
TEST(CountsOfTest, TheEndlessBucketTakesTheRest) {
  const BucketHistogram histogram{
      .buckets = {{0, 10, 1}, {10, kInfinity, 2}}, .count = 3, .sum = 34};
  EXPECT_THAT(CountsOf(histogram), ElementsAre(10, 12, 12));
}

TEST(PrometheusTextTest, ReadsNamesLabelsAndValues) {
  const auto sample = ParseMetricSample(R"(a:b{x="1, \"2\"\n}", le="+Inf" } 2.5e3 1700000000)");
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->name, "a:b");
  EXPECT_EQ(sample->labels.at("x"), "1, \"2\"\n}");
  EXPECT_EQ(sample->labels.at("le"), "+Inf");
  EXPECT_EQ(sample->value, 2500);
  EXPECT_EQ(ParseMetricSample("up 1")->value, 1);
  EXPECT_EQ(ParseMetricSample("up{} -Inf")->value, -kInfinity);
  EXPECT_TRUE(std::isnan(ParseMetricSample("up NaN")->value));
}

TEST(PrometheusTextTest, RefusesMalformedLines) {
  for (const char* line :
       {"up", "up x", "{a=\"b\"} 1", "up{a=\"b} 1", "up{a=b} 1", "up{a=\"b\"", ""}) {
    EXPECT_FALSE(ParseMetricSample(line)) << line;
  }
}

}  // namespace
}  // namespace twin
