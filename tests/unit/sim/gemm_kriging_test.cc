// Curves of products between measured (n, k).
#include "sim/devices/operations/gemm_kriging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/devices/operations/gemm_table.h"

namespace twin::sim {
namespace {

using testing::DoubleNear;
using testing::Each;

constexpr double kCodingError = 0.02;  // of EncodeGemmCurve

// n and k of 1,024 times 1, 2, 4, ...; log_ratio(i, j) of the i-th n and the j-th k at every m.
GemmTable Grid(std::size_t sizes, const std::function<double(std::size_t, std::size_t)>& log_ratio,
               std::vector<std::uint32_t> m = {1}) {
  GemmTable table;
  table.m = std::move(m);
  for (std::size_t i = 0; i < sizes; ++i) {
    table.n.push_back(1024U << i);
    table.k.push_back(1024U << i);
    for (std::size_t j = 0; j < sizes; ++j) {
      table.curves.push_back(EncodeGemmCurve(std::vector<double>(table.m.size(), log_ratio(i, j))));
    }
  }
  return table;
}

GemmTable Flat(double log_ratio, std::vector<std::uint32_t> m = {1}) {
  return Grid(
      3, [=](std::size_t, std::size_t) { return log_ratio; }, std::move(m));
}

// The middle of a grid of 3 x 3, from the others.
double MiddleWithout(const GemmTable& table, std::vector<const GemmTable*> pool = {}) {
  return GemmKriging(table, pool).CurveAt(2048, 2048, true).log_ratios[0];
}

TEST(GemmKrigingTest, MeasuredProductsKeepTheirCurves) {
  GemmTable table = Flat(0.1);
  const GemmTable other = Flat(0.4);
  table.between_shapes = GemmBetweenShapes::kPooled;
  const GemmTable* pool[] = {&table, &other};
  const GemmCurveRatios curve = GemmKriging(table, pool).CurveAt(2048, 1024);
  EXPECT_THAT(curve.log_ratios, Each(DoubleNear(0.1, kCodingError)));
  EXPECT_EQ(curve.variance, 0);
}

// 0.1 per octave of n and of k: a covariance that only falls with the distance stays near the mean
// of the neighbours of the last product, 0.4.
TEST(GemmKrigingTest, WhatEqualSizesHaveInCommonAddsUp) {
  GemmTable table = Grid(3, [](std::size_t i, std::size_t j) {
    return 0.1 * static_cast<double>(i) + 0.1 * static_cast<double>(j);
  });
  const double near = GemmKriging(table).CurveAt(4096, 4096, true).log_ratios[0];
  table.between_shapes = GemmBetweenShapes::kAdditive;
  const double additive = GemmKriging(table).CurveAt(4096, 4096, true).log_ratios[0];
  EXPECT_LT(near, 0.3);
  EXPECT_GT(additive, near + 0.03);
  EXPECT_LT(additive, 0.4 + kCodingError);
}

// One of eight neighbours of this library is 0.3 too slow, which no other library shows.
TEST(GemmKrigingTest, AnOutlierOfOneLibraryCountsLess) {
  const auto outlier = [](std::size_t i, std::size_t j) { return i == 1 && j == 0 ? 0.3 : 0.0; };
  GemmTable table = Grid(3, outlier);
  const GemmTable second = Flat(0);
  const GemmTable third = Flat(0);
  table.between_shapes = GemmBetweenShapes::kAdditive;
  const double alone = MiddleWithout(table);
  table.between_shapes = GemmBetweenShapes::kPooled;
  const double pooled = MiddleWithout(table, {&table, &second, &third});
  EXPECT_GT(alone, 0.05);
  EXPECT_GT(pooled, 0);
  EXPECT_LT(pooled, 0.8 * alone);
}

// What all of its products have in common stays a library's own.
TEST(GemmKrigingTest, ALibraryThatIsSlowerThanOthersStaysSo) {
  GemmTable table = Flat(0.3);
  const GemmTable second = Flat(0);
  const GemmTable third = Flat(0);
  table.between_shapes = GemmBetweenShapes::kPooled;
  EXPECT_NEAR(MiddleWithout(table, {&second, &third}), 0.3, kCodingError);
}

// A table that lacks one of the m of this one is no part of the pool.
TEST(GemmKrigingTest, OtherLibrariesCountWhereTheyMeasuredEveryM) {
  GemmTable table = Flat(0, {16, 64});
  table.between_shapes = GemmBetweenShapes::kPooled;
  const auto slope = [](std::size_t i, std::size_t) { return 0.2 * static_cast<double>(i); };
  const GemmTable fewer = Grid(3, slope, {16});
  EXPECT_EQ(MiddleWithout(table, {&fewer}), MiddleWithout(table));
  const GemmTable more =
      Grid(3, [](std::size_t i, std::size_t) { return i == 2 ? 0.4 : 0.0; }, {16, 32, 64});
  EXPECT_NE(MiddleWithout(table, {&more}), MiddleWithout(table));
}

TEST(GemmKrigingTest, BeyondTheLargestSizesLibrariesAreNotPooled) {
  GemmTable table = Grid(3, [](std::size_t i, std::size_t j) {
    return 0.1 * static_cast<double>(i) + 0.05 * static_cast<double>(j);
  });
  const GemmTable other = Flat(0.5);
  const GemmCurveRatios alone = GemmKriging(table).CurveAt(8192, 2048);
  table.between_shapes = GemmBetweenShapes::kPooled;
  const GemmTable* pool[] = {&other};
  EXPECT_EQ(GemmKriging(table, pool).CurveAt(8192, 2048).log_ratios, alone.log_ratios);
  EXPECT_NE(GemmKriging(table, pool).CurveAt(3000, 2048).log_ratios,
            GemmKriging(table).CurveAt(3000, 2048).log_ratios);
}

TEST(GemmKrigingTest, VarianceGrowsWithTheDistance) {
  const GemmTable table = Flat(0.1);
  const GemmKriging kriging(table);
  const double near = kriging.CurveAt(1100, 1024).variance;
  const double between = kriging.CurveAt(1450, 1024).variance;
  const double beyond = kriging.CurveAt(16384, 1024).variance;
  EXPECT_LT(0, near);
  EXPECT_LT(near, between);
  EXPECT_LT(between, beyond);
}

}  // namespace
}  // namespace twin::sim
