// What a search of configurations keeps, how it ranks them, and where a load breaks a bound.
#include "apps/recommend/halving.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "apps/recommend/load_search.h"

namespace twin::run {
namespace {

using ::testing::ElementsAre;

// Two of six are kept by rank. The paired differences from the second, B, decide about the others;
// t of two degrees of freedom at 0.975 is 4.303.
TEST(HalvingTest, KeepsTheBestAndWhatIsNotToldFromTheCut) {
  const Scores scores = {
      {10, 10, 10},     // A
      {9, 9.2, 9.1},    // B: the cut, mean 9.1, margin 0.091
      {8.8, 9.2, 9},    // -0.2, 0, -0.1: mean -0.1, half 4.303 * 0.1 / sqrt(3) = 0.248: above 0.091
      {8.5, 8.7, 8.6},  // -0.5 each: below
      {9, 9.2, 9.1},    // equal to B, which came first: 0 is not above the margin
      {1, 1, 1}};
  const HalvingRule rule{.keep_share = 0.25, .keep_min = 2, .level = 0.95, .tolerance = 0.01};
  EXPECT_THAT(Survivors(scores, rule), ElementsAre(0u, 1u, 2u));
}

TEST(HalvingTest, KeepsAtLeastTheSmallestNumberAndAtLeastTheShare) {
  Scores scores;
  for (int i = 0; i < 12; ++i) scores.push_back({1.0 * i, 1.0 * i, 1.0 * i});
  EXPECT_THAT(Survivors(scores, {.keep_share = 0.25, .keep_min = 2}), ElementsAre(9u, 10u, 11u));
  EXPECT_EQ(Survivors(scores, {.keep_share = 0.25, .keep_min = 5}).size(), 5u);
  EXPECT_EQ(Survivors(scores, {.keep_share = 0.25, .keep_min = 50}).size(), 12u);
  EXPECT_TRUE(Survivors({}, {}).empty());
}

TEST(HalvingTest, RanksByMeanAndTiesWhatIsNotShownToBeWorse) {
  const Scores scores = {
      {9, 9, 9},           // 1 behind everywhere
      {11, 10, 8},         // -1, 0, 2 behind: mean 1/3, not told apart
      {10, 10, 10},        // the first
      {9.95, 9.95, 9.95},  // 0.05 behind everywhere: less than the tolerance of 0.1
      {10, 10, 10}};       // equal to the first
  const auto ranked = RankConfigurations(scores, 0.95, 0.01);
  ASSERT_EQ(ranked.size(), 5u);
  EXPECT_EQ(ranked[0].index, 2u);
  EXPECT_EQ(ranked[1].index, 4u);
  EXPECT_EQ(ranked[2].index, 3u);
  EXPECT_EQ(ranked[3].index, 1u);
  EXPECT_EQ(ranked[4].index, 0u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(ranked[i].tied) << i;
  EXPECT_FALSE(ranked[4].tied);
  EXPECT_TRUE(RankConfigurations({}, 0.95, 0.01).empty());
}

TEST(HalvingTest, TheParetoFrontHoldsWhatNothingDominates) {
  EXPECT_THAT(ParetoFront({{1, 5}, {2, 4}, {2, 3}, {3, 1}, {1, 5}}), ElementsAre(0u, 1u, 3u));
}

// Room falls by a tenth per unit of load and is 0 at 10: a straight line, which interpolation hits.
TEST(LoadLimitTest, IsWhereTheRoomCrossesZero) {
  std::multiset<double> asked;
  const auto room = [&asked](double load) {
    asked.insert(load);
    return 1 - load / 10;
  };
  EXPECT_NEAR(FindLoadLimit({.start = 1, .low = 0.01, .high = 1000}, room), 10, 1e-9);
  for (const double load : asked) EXPECT_EQ(asked.count(load), 1u) << load;
  // 1, 2, 8, 32; then 24 / 32 at geometric means down to 1 %.
  EXPECT_LT(asked.size(), 4u + 9u);
  EXPECT_NEAR(FindLoadLimit({.start = 400, .low = 0.01, .high = 1000}, room), 10, 1e-9);
  asked.clear();
  EXPECT_NEAR(FindLoadLimit({.start = 10.1, .low = 0.01, .high = 1000, .step = 1.03}, room), 10,
              1e-9);
  EXPECT_LE(asked.size(), 4u);
}

TEST(LoadLimitTest, OfWholeLoadsIsTheLargestThatHolds) {
  for (const double start : {1.0, 7.0, 10.0, 11.0, 60.0}) {
    EXPECT_EQ(FindLoadLimit({.start = start, .low = 1, .high = 100, .whole = true},
                            [](double load) { return 10.5 - load; }),
              10)
        << start;
  }
}

TEST(LoadLimitTest, IsAnEndWhereTheBoundsHoldEverywhereOrNowhere) {
  const LoadSearch search{.start = 3, .low = 0.5, .high = 50};
  EXPECT_EQ(FindLoadLimit(search, [](double) { return 1.0; }), 50);
  EXPECT_EQ(FindLoadLimit(search, [](double) { return -1.0; }), 0.5);
}

// A metric without a value breaks its bound without saying by how much.
TEST(LoadLimitTest, StaysBelowALoadWithoutAValue) {
  const double found = FindLoadLimit({.start = 1, .low = 0.1, .high = 100}, [](double load) {
    return load < 5 ? 1.0 : -std::numeric_limits<double>::infinity();
  });
  EXPECT_LT(found, 5);
  EXPECT_GT(found, 4.9);
}

}  // namespace
}  // namespace twin::run
