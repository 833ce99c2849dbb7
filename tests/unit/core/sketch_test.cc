#include "core/sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace twin {
namespace {

// numpy.percentile's default, written from its definition: position (N - 1) q.
double LinearPercentile(std::vector<std::int64_t> values, double q) {
  std::sort(values.begin(), values.end());
  const double position = static_cast<double>(values.size() - 1) * q;
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  const double low = static_cast<double>(values[below]);
  return low + (static_cast<double>(values[above]) - low) * (position - std::floor(position));
}

constexpr double kQuantiles[] = {0, 0.001, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1};

// Spread over eleven powers of ten.
std::vector<std::int64_t> SpreadValues(std::uint64_t seed, std::size_t count) {
  std::vector<std::int64_t> values;
  std::uint64_t state = seed;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const double uniform = static_cast<double>(state >> 11) * 0x1p-53;
    values.push_back(static_cast<std::int64_t>(std::pow(10.0, 11 * uniform)));
  }
  return values;
}

TEST(SketchTest, InterpolatesLinearlyAsNumpyDoes) {
  // By hand: sorted 100, 200, 370; position of P90 is 1.8, of P99 1.98.
  Sketch sketch;
  for (const std::int64_t value : {370, 100, 200}) sketch.Insert(value);
  EXPECT_DOUBLE_EQ(sketch.Quantile(0.5), 200);
  EXPECT_DOUBLE_EQ(sketch.Quantile(0.9), 336);
  EXPECT_NEAR(sketch.Quantile(0.99), 366.6, 1e-9);
  EXPECT_DOUBLE_EQ(sketch.Quantile(0), 100);
  EXPECT_DOUBLE_EQ(sketch.Quantile(1), 370);
}

TEST(SketchTest, TakesAWeightAsThatManyValues) {
  Sketch weighted;
  Sketch single;
  weighted.Insert(7, 3);
  weighted.Insert(50, 2);
  weighted.Insert(7, 1);
  for (const std::int64_t value : {7, 7, 7, 50, 50, 7}) single.Insert(value);
  EXPECT_EQ(weighted.count(), 6);
  for (const double q : kQuantiles) EXPECT_EQ(weighted.Quantile(q), single.Quantile(q)) << q;
  EXPECT_DOUBLE_EQ(weighted.deviation(), single.deviation());
}

TEST(SketchTest, IsUndefinedWhileEmpty) {
  const Sketch sketch;
  EXPECT_EQ(sketch.count(), 0);
  EXPECT_TRUE(std::isnan(sketch.mean()));
  EXPECT_TRUE(std::isnan(sketch.deviation()));
  EXPECT_TRUE(std::isnan(sketch.minimum()));
  EXPECT_TRUE(std::isnan(sketch.maximum()));
  EXPECT_TRUE(std::isnan(sketch.Quantile(0.5)));
}

TEST(SketchTest, IsExactForTheStatedNumberOfInsertions) {
  const std::vector<std::int64_t> values = SpreadValues(1, Sketch::kExactEntries);
  Sketch sketch;
  for (const std::int64_t value : values) sketch.Insert(value);
  ASSERT_TRUE(sketch.exact());
  for (const double q : kQuantiles) {
    EXPECT_DOUBLE_EQ(sketch.Quantile(q), LinearPercentile(values, q)) << q;
  }
}

TEST(SketchTest, StaysExactWhileFewDistinctValuesOccur) {
  Sketch sketch;
  for (std::int64_t i = 0; i < 200'000; ++i) sketch.Insert(1'000'003 * (i % 8000));
  EXPECT_TRUE(sketch.exact());
  EXPECT_EQ(sketch.count(), 200'000);
  // Every value occurs 25 times, so order statistic 199999 / 2 lies among those of 4000 and 3999.
  EXPECT_DOUBLE_EQ(sketch.Quantile(0.5), 1'000'003 * 3999.5);
}

TEST(SketchTest, KeepsTheRelativeErrorOnceBucketed) {
  for (const std::uint64_t seed : {2u, 3u, 4u}) {
    const std::vector<std::int64_t> values = SpreadValues(seed, 100'000);
    Sketch sketch;
    for (const std::int64_t value : values) sketch.Insert(value);
    ASSERT_FALSE(sketch.exact());
    for (const double q : kQuantiles) {
      const double truth = LinearPercentile(values, q);
      EXPECT_NEAR(sketch.Quantile(q), truth, truth * Sketch::kRelativeError) << q;
    }
  }
}

TEST(SketchTest, KeepsTheRelativeErrorAtTheEdgesOfEveryBucketSize) {
  // Twice as many distinct values as the exact form holds, then one value alone in the middle of
  // the order statistics, at and beside each power of two.
  for (int power = 1; power < 63; ++power) {
    for (const std::int64_t offset : {-1, 0, 1}) {
      const std::int64_t value = (std::int64_t{1} << power) + offset;
      Sketch sketch;
      for (std::int64_t i = 0; i < 20'000; ++i) sketch.Insert(i);
      ASSERT_FALSE(sketch.exact());
      sketch.Insert(value, 1'000'000);
      const double truth = static_cast<double>(value);
      EXPECT_NEAR(sketch.Quantile(0.5), truth, truth * Sketch::kRelativeError) << value;
    }
  }
}

TEST(SketchTest, KeepsSumMeanDeviationAndExtremesExactWhenBucketed) {
  // 0 ... n - 1: mean (n - 1) / 2, population variance (n^2 - 1) / 12.
  constexpr std::int64_t kCount = 100'000;
  Sketch sketch;
  for (std::int64_t i = 0; i < kCount; ++i) sketch.Insert(kCount - 1 - i);
  ASSERT_FALSE(sketch.exact());
  const double n = kCount;
  EXPECT_DOUBLE_EQ(sketch.sum(), n * (n - 1) / 2);
  EXPECT_DOUBLE_EQ(sketch.mean(), (n - 1) / 2);
  EXPECT_DOUBLE_EQ(sketch.deviation(), std::sqrt((n * n - 1) / 12));
  EXPECT_EQ(sketch.minimum(), 0);
  EXPECT_EQ(sketch.maximum(), n - 1);
}

TEST(SketchTest, KeepsADeviationThatIsTinyBesideTheMean) {
  // A thousand seconds, give or take one nanosecond: a double's sum of squares would lose it.
  Sketch sketch;
  sketch.Insert(1'000'000'000'000 - 1, 500'000);
  sketch.Insert(1'000'000'000'000 + 1, 500'000);
  EXPECT_DOUBLE_EQ(sketch.deviation(), 1);
}

TEST(SketchTest, MergesIntoWhatOneSketchWouldHaveSeen) {
  struct Case {
    std::size_t left;
    std::size_t right;
  };
  for (const Case& sizes : {Case{100, 200}, Case{100, 50'000}, Case{50'000, 100},
                            Case{50'000, 60'000}, Case{10'000, 10'000}, Case{0, 5}, Case{5, 0}}) {
    const std::vector<std::int64_t> first = SpreadValues(5, sizes.left);
    const std::vector<std::int64_t> second = SpreadValues(6, sizes.right);
    Sketch left;
    Sketch right;
    Sketch whole;
    for (const std::int64_t value : first) left.Insert(value), whole.Insert(value);
    for (const std::int64_t value : second) right.Insert(value), whole.Insert(value);
    left.Merge(right);
    EXPECT_EQ(left.count(), whole.count());
    EXPECT_EQ(left.exact(), whole.exact());
    EXPECT_EQ(left.sum(), whole.sum());
    EXPECT_NEAR(left.deviation(), whole.deviation(), 1e-9 * whole.deviation());
    EXPECT_EQ(left.minimum(), whole.minimum());
    EXPECT_EQ(left.maximum(), whole.maximum());
    for (const double q : kQuantiles) EXPECT_EQ(left.Quantile(q), whole.Quantile(q)) << q;
  }
}

TEST(SketchTest, TakesTheLargestValue) {
  Sketch sketch;
  for (std::int64_t i = 0; i < 20'000; ++i) sketch.Insert(i);
  sketch.Insert(std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(sketch.Quantile(1), sketch.maximum());
}

TEST(SketchDeathTest, RefusesNegativeValuesAndWeightsBelowOne) {
  Sketch sketch;
  EXPECT_DEATH(sketch.Insert(-1), "check failed");
  EXPECT_DEATH(sketch.Insert(1, 0), "check failed");
}

}  // namespace
}  // namespace twin
