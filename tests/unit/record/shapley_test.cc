#include "run/record/shapley.h"

#include <gmock/gmock.h>

namespace twin {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ShapleyTest, GivesCausesThatOnlyAddUpWhatEachAdds) {
  EXPECT_THAT(ShapleyShares(std::vector<double>{10, 13, 12, 15}),
              ElementsAre(DoubleEq(3), DoubleEq(2)));
}

TEST(ShapleyTest, SharesEquallyWhatOnlyBothBringAbout) {
  EXPECT_THAT(ShapleyShares(std::vector<double>{0, 0, 0, 8}),
              ElementsAre(DoubleEq(4), DoubleEq(4)));
}

// The glove game: two left gloves (causes 0 and 1), one right one; a pair is worth 1. Its shares
// are 1/6, 1/6, 2/3.
TEST(ShapleyTest, SolvesTheGloveGame) {
  EXPECT_THAT(ShapleyShares(std::vector<double>{0, 0, 0, 0, 0, 1, 1, 1}),
              ElementsAre(DoubleEq(1.0 / 6), DoubleEq(1.0 / 6), DoubleEq(2.0 / 3)));
}

TEST(ShapleyTest, HasNothingToShareWithoutCauses) {
  EXPECT_THAT(ShapleyShares(std::vector<double>{7}), IsEmpty());
}

}  // namespace
}  // namespace twin
