#include "core/seed_range.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "core/input_error.h"

namespace twin {
namespace {

constexpr std::uint64_t kLargest = 18446744073709551615u;  // 2^64 - 1

TEST(SeedRangeTest, TheLastSeedMayBeTheLargest) {
  EXPECT_NO_THROW(RequireSeeds("study", kLargest - 3, 4));
  EXPECT_NO_THROW(RequireSeeds("study", kLargest, 1));
  EXPECT_NO_THROW(RequireSeeds("study", 0, kLargest));
}

TEST(SeedRangeTest, SeedsDoNotBeginAgainAtZero) {
  EXPECT_THAT([] { RequireSeeds("study", kLargest - 1, 4); },
              ::testing::ThrowsMessage<InputError>(
                  "study: seed: 18446744073709551614 is too large for 4 seeds in a row; allowed: 0 "
                  "to 18446744073709551612"));
  EXPECT_THROW(RequireSeeds("study", kLargest, 2), InputError);
}

}  // namespace
}  // namespace twin
