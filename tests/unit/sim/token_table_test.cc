// Tables of remembered values: what is computed, how often, and what is beyond their size.
#include "sim/devices/token_table.h"

#include <gtest/gtest.h>

namespace twin::sim {
namespace {

TEST(TokenTableTest, AValueIsComputedOnceEvenIfItIsZero) {
  const TokenTable table(4);
  int computed = 0;
  const auto zero = [&](std::int64_t /*tokens*/) {
    ++computed;
    return 0.0;
  };
  EXPECT_EQ(table.At(3, zero), 0);
  EXPECT_EQ(table.At(3, zero), 0);
  EXPECT_EQ(computed, 1);
}

TEST(TokenTableTest, BeyondTheSizeAllIsComputedAgain) {
  const TokenTable table(4);
  table.Store(4, 7);
  EXPECT_EQ(table.At(4, [](std::int64_t tokens) { return 2.5 * static_cast<double>(tokens); }), 10);
  EXPECT_EQ(table.At(4, [](std::int64_t /*tokens*/) { return -1.0; }), -1);
}

TEST(EstimateTableTest, OneCallGivesAllPartsOfItsOwnSize) {
  const EstimateTable table(4);
  int computed = 0;
  const auto compute = [&](std::int64_t tokens) {
    ++computed;
    const auto seconds = static_cast<double>(tokens);
    return TimeEstimate{seconds, seconds / 2, seconds / 4};
  };
  for (const std::int64_t tokens : {2, 3, 2}) {
    const auto seconds = static_cast<double>(tokens);
    EXPECT_EQ(table.Seconds(tokens, compute), seconds);
    const TimeEstimate estimate = table.At(tokens, compute);
    EXPECT_EQ(estimate.seconds, seconds);
    EXPECT_EQ(estimate.log_sd, seconds / 2);
    EXPECT_EQ(estimate.lasting_sd, seconds / 4);
  }
  EXPECT_EQ(computed, 2);
}

}  // namespace
}  // namespace twin::sim
