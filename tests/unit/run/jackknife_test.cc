#include "run/many/jackknife.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/random.h"
#include "core/statistics.h"

namespace twin::run {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// The mean of 1, 2 and 6 is 3; without each value 4, 3.5 and 1.5. The pseudo-values of a mean are
// the values themselves.
TEST(JackknifeTest, PseudoValuesOfAMeanAreItsValues) {
  EXPECT_THAT(PseudoValues({.value = 3, .without = {4, 3.5, 1.5}}), ElementsAre(1, 2, 6));
}

// Rooms of three seeds at 8 and 12: 3, 2, 1 and -1, -2, -3. Their means 2 and -2 cross at 10.
// Without the first one, 1.5 and -2.5 cross at 8 + 4 * 1.5 / 4; without the second one, 2 and -2;
// without the third one, 2.5 and -1.5.
TEST(JackknifeTest, ARootMovesAlongTheLineOfTheOtherSeeds) {
  const Chord chord{.low = 8, .high = 12, .at_low = {{3}, {2}, {1}}, .at_high = {{-1}, {-2}, {-3}}};
  EXPECT_THAT(WithoutEachSeed(10, chord).without, ElementsAre(9.5, 10, 10.5));
  // The value found by a finer search moves as far.
  EXPECT_THAT(WithoutEachSeed(10.2, chord).without, ElementsAre(9.7, 10.2, 10.7));
}

// The second bound is broken first: its means 1 and -3 cross at 9. Without the first seed, 0 and -4
// cross at 8; without the second one, 2 and -2 cross at 10.
TEST(JackknifeTest, TheSmallestRootOfTheBoundsCounts) {
  const Chord chord{
      .low = 8, .high = 12, .at_low = {{3, 2}, {3, 0}}, .at_high = {{-1, -2}, {-1, -4}}};
  EXPECT_THAT(WithoutEachSeed(9, chord).without, ElementsAre(8, 10));
}

TEST(JackknifeTest, WithoutAValueOrASlopeThereIsNoRoot) {
  Chord chord{.low = 8, .high = 12, .at_low = {{3}, {2}}, .at_high = {{-1}, {kNoNumber}}};
  EXPECT_THAT(WithoutEachSeed(10, chord).without, Each(::testing::IsNan()));
  chord.at_high = {{3}, {2}};
  EXPECT_THAT(WithoutEachSeed(10, chord).without, Each(::testing::IsNan()));
}

// Half of the roots at every seed: a ratio of exactly 2, with no spread.
TEST(JackknifeTest, ARatioIsThatOfTheRoots) {
  const RootOfMean one{.value = 3, .without = {4, 3.5, 1.5}};
  const PairedComparison compared =
      CompareRoots(Mapped(one, [](double x) { return 2 * x; }), one, 0.95);
  EXPECT_NEAR(compared.ratio.value, 2, 1e-12);
  EXPECT_NEAR(compared.ratio.low, 2, 1e-12);
  EXPECT_NEAR(compared.ratio.high, 2, 1e-12);
  EXPECT_NEAR(compared.difference.value, 3, 1e-12);
  EXPECT_NEAR(compared.correlation, 1, 1e-12);
}

// A wait of c x / (1 - x), with c exponential of mean 1 by seed, reaches 3 in the mean at x = 0.75.
// The root of the mean of 20 seeds is 3 / (3 + mean c): on average 0.75 + (6 / 64) / 2 / 20 =
// 0.7523 by the second derivative; 400 of them have a standard error of 0.0021. The mean of the
// roots 3 / (3 + c) of single seeds is 3 e^3 E1(3) = 0.786 (Abramowitz, Stegun 1964, 5.1), 4.8 %
// too large.
TEST(JackknifeTest, TheMeanIsNotThatOfTheSeedsOwnRoots) {
  Random random(1, "jackknife");
  double of_seeds = 0;
  double of_jackknife = 0;
  int inside = 0;
  for (int i = 0; i < 400; ++i) {
    Chord chord{.low = 0, .high = 0, .at_low = {}, .at_high = {}};
    std::vector<double> c;
    for (int seed = 0; seed < 20; ++seed) c.push_back(random.Exponential(1));
    const double root = 3 / (3 + Mean(c));
    chord.low = 0.96 * root;
    chord.high = 1.04 * root;
    for (const double one : c) {
      of_seeds += 3 / (3 + one) / 8000;
      chord.at_low.push_back({3 - one * chord.low / (1 - chord.low)});
      chord.at_high.push_back({3 - one * chord.high / (1 - chord.high)});
    }
    const Interval interval = MeanInterval(PseudoValues(WithoutEachSeed(root, chord)), 0.95);
    of_jackknife += interval.value / 400;
    if (interval.low <= 0.75 && 0.75 <= interval.high) ++inside;
  }
  EXPECT_NEAR(of_seeds, 0.786, 0.003);
  EXPECT_NEAR(of_jackknife, 0.7523, 0.005);
  EXPECT_GT(inside, 0.88 * 400);  // of 95 %: pseudo-values are as skewed as the waits
}

}  // namespace
}  // namespace twin::run
