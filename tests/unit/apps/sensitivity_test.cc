// How much a setting changes the answer of recommend.
#include "apps/recommend/sensitivity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

namespace twin::run {
namespace {

using ::testing::StartsWith;

// Twice the budget serves twice as much, half of it half.
TEST(SensitivityTest, AnElasticityIsTheSlopeBetweenTheOuterVariants) {
  const SettingVariants variants{.path = "token_budget",
                                 .value = "512",
                                 .choices = {{}, {}},
                                 .values = {"256", "1024"},
                                 .ratios = {0.5, 2}};
  const RootOfMean own = MeanOf(std::vector<double>{100, 200, 300});
  const auto times = [&own](double factor) {
    return Mapped(own, [factor](double value) { return factor * value; });
  };
  const SettingSensitivity found =
      SensitivityOf(variants, {times(0.5), times(2)}, own, "goodput", 0.01);
  ASSERT_TRUE(found.elasticity);
  EXPECT_NEAR(found.elasticity->value, 1, 1e-12);
  EXPECT_NEAR(found.elasticity->high - found.elasticity->low, 0, 1e-9);
  EXPECT_EQ(found.sentence,
            "halving token_budget changes goodput (-50.0 % [-50.0 %, -50.0 %]); doubling "
            "token_budget changes goodput (+100.0 % [+100.0 %, +100.0 %])");
  // Only the doubled one runs: ln(1.1) / ln(2).
  const SettingSensitivity half =
      SensitivityOf(variants, {std::nullopt, times(1.1)}, own, "goodput", 0.01);
  EXPECT_NEAR(half.elasticity->value, std::log(1.1) / std::log(2), 1e-12);
  EXPECT_THAT(half.sentence, StartsWith("halving token_budget does not run; doubling"));
}

TEST(SensitivityTest, SaysThatASettingChangesNothing) {
  const SettingVariants variants{
      .path = "max_num_seqs", .value = "64", .choices = {{}}, .values = {"128"}, .ratios = {2}};
  const RootOfMean own = MeanOf(std::vector<double>{5, 6, 7});
  EXPECT_EQ(SensitivityOf(variants, {own}, own, "goodput", 0.01).sentence,
            "doubling max_num_seqs changes nothing (+0.0 % [+0.0 %, +0.0 %])");
}

}  // namespace
}  // namespace twin::run
