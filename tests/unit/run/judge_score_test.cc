// Scores of the judge: means over cells, and the sequential decision.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/random.h"
#include "run/judge/score.h"

namespace twin::run {
namespace {

// All cells of one stratum.
std::vector<CellOrigin> Whole(std::size_t cells) { return std::vector<CellOrigin>(cells); }

// Two of six cells of a stratum, with means 1 and 3 of two pairs each: (1 - 2/6) * 2 / 2 between
// the cells, whose means vary by 2, and 0.02 / 2 / (2 * 6) for each of the two within.
TEST(PairedScoreTest, CellsThatWereNotDrawnMakeTheIntervalWider) {
  PairedScore score({{0, 6}, {0, 6}});
  for (const double difference : {0.9, 1.1}) score.Add(0, difference);
  for (const double difference : {2.9, 3.1}) score.Add(1, difference);
  const double variance = 2.0 / 3 + 2 * 0.01 / 12;
  const double degrees = variance * variance / (4.0 / 9 / 3 + 2 * std::pow(0.01 / 12, 2) / 3) - 2;
  const Interval mean = score.Mean(0.95);
  EXPECT_NEAR(mean.value, 2, 1e-12);
  EXPECT_NEAR(mean.high - 2, StudentQuantile(degrees, 0.975) * std::sqrt(variance), 1e-6);
}

// One of six cells of each of two strata, with means 1 and 3: their variance 2 stands for both.
TEST(PairedScoreTest, SingleCellsOfSeveralStrataShareTheVarianceOfTheirMeans) {
  PairedScore score({{0, 6}, {1, 6}});
  for (const double difference : {0.9, 1.1}) score.Add(0, difference);
  for (const double difference : {2.9, 3.1}) score.Add(1, difference);
  const double between = 2 * 5.0 / 6 * 2 / 4;
  const double within = 0.01 / 6 / 4;
  const double variance = between + 2 * within;
  const double degrees =
      variance * variance / (between * between / 3 + 2 * within * within / 3) - 2;
  const Interval mean = score.Mean(0.95);
  EXPECT_NEAR(mean.high - 2, StudentQuantile(degrees, 0.975) * std::sqrt(variance), 1e-6);
}

TEST(PairedScoreTest, ASingleCellOfManySaysNothingOfTheOthers) {
  PairedScore score({{0, 6}});
  for (int pair = 0; pair < 20; ++pair) score.Add(0, 1 + 0.01 * pair);
  EXPECT_TRUE(std::isnan(score.Mean(0.95).low));
  EXPECT_EQ(score.Decide(0.03), Sign::kUndecided);
}

TEST(PairedScoreTest, TakesTheMeanOverCellsAndTheVarianceWithinThem) {
  PairedScore score(Whole(2));
  for (const double difference : {0.1, 0.3}) score.Add(0, difference);
  for (const double difference : {1.1, 1.3}) score.Add(1, difference);
  // Means 0.2 and 1.2; within cells the variance is 0.02 with 1 degree of freedom each, so that the
  // mean 0.7 has the standard error sqrt(2 * 0.02 / 2) / 2 = 0.0707, whose degrees of freedom are
  // (2 v)^2 / (2 v^2 / 3) - 2 = 4.
  const Interval mean = score.Mean(0.95);
  EXPECT_NEAR(mean.value, 0.7, 1e-12);
  EXPECT_NEAR(mean.high - mean.value, 2.776445 * 0.0707107, 1e-5);
  EXPECT_EQ(mean.n, 4u);
  EXPECT_DOUBLE_EQ(score.MeanOf(1), 1.2);
}

TEST(PairedScoreTest, IsUndecidedBelowTenPairsAndWithoutAnInterval) {
  PairedScore score(Whole(9));
  for (std::size_t cell = 0; cell < 9; ++cell)
    score.Add(cell, 1.0 + 0.01 * static_cast<double>(cell));
  EXPECT_EQ(score.Decide(0.03), Sign::kUndecided);
  EXPECT_TRUE(std::isnan(score.Mean(0.95).low));
}

TEST(PairedScoreTest, DifferencesBetweenCellsAreNoNoise) {
  // Cells differ by 1, and the gain is 0.05 in all of them with a noise of 0.01.
  PairedScore score(Whole(4));
  Random random(1, "noise");
  for (int round = 0; round < 5; ++round) {
    for (std::size_t cell = 0; cell < 4; ++cell) {
      const double cell_mean = static_cast<double>(cell) - 1.5 + 0.05;
      score.Add(cell, cell_mean + 0.01 * (random.UnitReal() - 0.5));
    }
  }
  EXPECT_EQ(score.Decide(0.03), Sign::kPositive);
}

TEST(PairedScoreTest, KeepsItsErrorWhenLookedAtAfterEachRound) {
  // Gains of 0 in cells with means of +-1: any decision is wrong.
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed, "noise");
    PairedScore score(Whole(4));
    Sign sign = Sign::kUndecided;
    for (int round = 0; round < 30 && sign == Sign::kUndecided; ++round) {
      for (std::size_t cell = 0; cell < 4; ++cell) {
        const double mean = cell % 2 == 0 ? 1 : -1;
        score.Add(cell, mean + random.UnitReal() - random.UnitReal());
      }
      sign = score.Decide(0.05);
    }
    wrong += sign != Sign::kUndecided ? 1 : 0;
  }
  EXPECT_LE(wrong, 24);  // 5 % of 300 is 15; 24 has a chance of 2 %
}

TEST(SubmissionTest, TheErrorsOfAllSubmissionsSumToTheOneThatWasAsked) {
  EXPECT_DOUBLE_EQ(ErrorOfSubmission(0.03, 1, 1), 0.015);
  EXPECT_DOUBLE_EQ(ErrorOfSubmission(0.03, 2, 1), 0.005);
  EXPECT_DOUBLE_EQ(ErrorOfSubmission(0.03, 1, 3), 0.005);
  double sum = 0;
  for (std::uint64_t k = 1; k <= 100'000; ++k) sum += 3 * ErrorOfSubmission(0.03, k, 3);
  EXPECT_NEAR(sum, 0.03, 1e-6);
}

}  // namespace
}  // namespace twin::run
