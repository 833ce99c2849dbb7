// Routing of rows to experts, and sums of what they compute, by hand and in double precision.
#include "kernels/routing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/unit/kernels/kernel_cases.h"

namespace twin::kernels {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::IsEmpty;

class RoutingTest : public ::testing::Test {
 protected:
  RoutedRows Route(const std::vector<std::vector<float>>& logits, std::int32_t experts_per_row,
                   bool normalised) {
    TestMatrix matrix(static_cast<std::int64_t>(logits.size()),
                      static_cast<std::int64_t>(logits[0].size()));
    for (std::size_t i = 0; i < logits.size(); ++i) {
      std::copy(logits[i].begin(), logits[i].end(), matrix.view.Row(static_cast<std::int64_t>(i)));
    }
    RoutedRows routed;
    RouteRows(pool_, matrix.view, {.experts_per_row = experts_per_row, .normalised = normalised},
              routed);
    return routed;
  }

  ThreadPool pool_{2};
};

TEST_F(RoutingTest, WeightsAreSoftmaxValuesOrTheirSharesOfTheSum) {
  const std::vector<std::vector<float>> logits = {{std::log(1.0F), std::log(2.0F), std::log(5.0F)}};
  const RoutedRows plain = Route(logits, 2, false);
  EXPECT_THAT(plain.chosen, ElementsAre(2, 1));
  EXPECT_THAT(plain.chosen_weights,
              ElementsAre(FloatNear(5.0F / 8, 1e-6F), FloatNear(0.25F, 1e-6F)));
  const RoutedRows normalised = Route(logits, 2, true);
  EXPECT_THAT(normalised.chosen_weights,
              ElementsAre(FloatNear(5.0F / 7, 1e-6F), FloatNear(2.0F / 7, 1e-6F)));
}

TEST_F(RoutingTest, SigmoidScoresWithABiasAreChosenFromTheBestGroups) {
  // Sigmoids of the logits are 0.5, 0.9 | 0.6, 0.8 | 0.7, 0.1; with the bias, ranks are 0.5, 0.9 |
  // 0.85, 0.8 | 0.7, 1.5, and sums of two 1.4, 1.65, 2.2. The last two groups are kept.
  const auto logit = [](float p) { return std::log(p / (1 - p)); };
  TestMatrix logits(1, 6);
  std::ranges::copy(
      std::vector{logit(0.5F), logit(0.9F), logit(0.6F), logit(0.8F), logit(0.7F), logit(0.1F)},
      logits.view.Row(0));
  const std::vector<float> bias = {0, 0, 0.25F, 0, 0, 1.4F};
  ExpertChoice choice{.experts_per_row = 3,
                      .normalised = true,
                      .score = ExpertScore::kSigmoid,
                      .bias = bias,
                      .groups = 3,
                      .groups_kept = 2,
                      .best_of_group = 2,
                      .scale = 2.5F};
  RoutedRows routed;
  RouteRows(pool_, logits.view, choice, routed);
  EXPECT_THAT(routed.chosen, ElementsAre(5, 2, 3));
  EXPECT_THAT(routed.chosen_weights,
              ElementsAre(FloatNear(2.5F * 0.1F / 1.5F, 1e-6F), FloatNear(1, 1e-6F),
                          FloatNear(2.5F * 0.8F / 1.5F, 1e-6F)));
  // The best of each group decides: 0.9, 0.85, 1.5.
  choice.best_of_group = 1;
  choice.normalised = false;
  RouteRows(pool_, logits.view, choice, routed);
  EXPECT_THAT(routed.chosen, ElementsAre(5, 1, 4));
  EXPECT_NEAR(routed.chosen_weights[1], 2.5F * 0.9F, 1e-6F);
}

TEST_F(RoutingTest, GroupsLimitSoftmaxScores) {
  TestMatrix logits(1, 4);
  std::ranges::copy(std::vector{std::log(1.0F), std::log(4.0F), std::log(3.0F), std::log(2.0F)},
                    logits.view.Row(0));
  RoutedRows routed;
  RouteRows(pool_, logits.view, {.experts_per_row = 2, .groups = 2, .groups_kept = 1, .scale = 2},
            routed);
  EXPECT_THAT(routed.chosen, ElementsAre(1, 0));
  EXPECT_THAT(routed.chosen_weights, ElementsAre(FloatNear(0.8F, 1e-6F), FloatNear(0.2F, 1e-6F)));
}

TEST_F(RoutingTest, OfEqualLogitsTheFirstExpertIsChosen) {
  EXPECT_THAT(Route({{0, 1, 1, 0}}, 3, false).chosen, ElementsAre(1, 2, 0));
  EXPECT_THAT(Route({{2, 2, 2, 2}}, 2, false).chosen, ElementsAre(0, 1));
}

TEST_F(RoutingTest, PairsAreSortedByExpertThenByRow) {
  const RoutedRows routed = Route({{0, 5, 9, 0}, {9, 0, 5, 0}, {0, 0, 9, 5}}, 2, true);
  EXPECT_THAT(routed.first, ElementsAre(0, 1, 2, 5, 6));
  EXPECT_THAT(routed.RowsOf(0), ElementsAre(1));
  EXPECT_THAT(routed.RowsOf(1), ElementsAre(0));
  EXPECT_THAT(routed.RowsOf(2), ElementsAre(0, 1, 2));
  EXPECT_THAT(routed.RowsOf(3), ElementsAre(2));
  const float most = 1 / (1 + std::exp(-4.0F));
  EXPECT_THAT(routed.WeightsOf(2), ElementsAre(FloatNear(most, 1e-6F), FloatNear(1 - most, 1e-6F),
                                               FloatNear(most, 1e-6F)));
}

TEST_F(RoutingTest, NoRowsAreRoutedNowhere) {
  RoutedRows routed;
  RouteRows(pool_, {nullptr, 0, 3, 3}, {.experts_per_row = 2, .normalised = true}, routed);
  EXPECT_THAT(routed.RowsOf(2), IsEmpty());
  EXPECT_THAT(routed.rows, IsEmpty());
}

TEST_F(RoutingTest, LogitsThatAreNoNumbersChooseDifferentExperts) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& logits : {std::vector{nan, nan, nan},
                                           {1.0F, nan, 2.0F},
                                           {infinity, 0, 0},
                                           {-infinity, -infinity, 0}}) {
    std::vector<std::int32_t> chosen = Route({logits}, 3, true).chosen;
    std::sort(chosen.begin(), chosen.end());
    EXPECT_THAT(chosen, ElementsAre(0, 1, 2));
  }
}

TEST_F(RoutingTest, WeightsAgreeWithDoublePrecisionWhateverTheCompany) {
  constexpr std::int64_t kRows = 300;
  constexpr std::int64_t kExperts = 60;
  TestMatrix logits(kRows, kExperts);
  logits.FillRandom("logits", 8);
  RoutedRows all;
  RouteRows(pool_, logits.view, {.experts_per_row = 4}, all);
  for (std::int64_t row = 0; row < kRows; ++row) {
    const float* const values = logits.view.Row(row);
    double sum = 0;
    for (std::int64_t i = 0; i < kExperts; ++i) sum += std::exp(static_cast<double>(values[i]));
    RoutedRows alone;
    RouteRows(pool_, logits.view.Rows(row, 1), {.experts_per_row = 4}, alone);
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t pair = static_cast<std::size_t>(row) * 4 + i;
      const double exact = std::exp(static_cast<double>(values[all.chosen[pair]])) / sum;
      EXPECT_NEAR(all.chosen_weights[pair], exact, 1e-5 * exact);
      EXPECT_EQ(alone.chosen[i], all.chosen[pair]);
      EXPECT_EQ(alone.chosen_weights[i], all.chosen_weights[pair]);
    }
  }
}

TEST_F(RoutingTest, ScaledRowsAreAddedWhereTheyCameFrom) {
  TestMatrix x(2, 3);
  x.FillRandom("x");
  TestMatrix y(4, 3);
  std::iota(y.view.Row(1), y.view.Row(1) + 3, 1.0F);
  std::fill_n(y.view.Row(3), 3, 0.0F);
  const std::vector<std::int32_t> rows = {3, 1};
  const std::vector<float> factors = {0.5F, -2};
  AddScaledRows(pool_, x.view, rows, factors, y.view);
  for (std::int64_t d = 0; d < 3; ++d) {
    EXPECT_EQ(y.view.Row(3)[d], 0.5F * x.view.Row(0)[d]);
    EXPECT_FLOAT_EQ(y.view.Row(1)[d], static_cast<float>(d + 1) - 2 * x.view.Row(1)[d]);
    EXPECT_EQ(y.view.Row(0)[d], TestMatrix::kMark);
  }
  EXPECT_TRUE(y.GapsAreUntouched());
}

TEST_F(RoutingTest, GatedRowsAreScaledByTheSigmoidOfTheirGate) {
  TestMatrix x(3, 2);
  x.FillRandom("x");
  TestMatrix y(3, 2);
  for (std::int64_t t = 0; t < 3; ++t) std::fill_n(y.view.Row(t), 2, 1.0F);
  TestMatrix gates(3, 1);
  *gates.view.Row(0) = 0;
  *gates.view.Row(1) = std::log(3.0F);
  *gates.view.Row(2) = -200;  // its exponential is infinite
  AddGatedRows(pool_, x.view, gates.view, y.view);
  const float expected[] = {0.5F, 0.75F, 0};
  for (std::int64_t t = 0; t < 3; ++t) {
    EXPECT_FLOAT_EQ(y.view.Row(t)[1], 1 + expected[t] * x.view.Row(t)[1]);
  }
}

}  // namespace
}  // namespace twin::kernels
