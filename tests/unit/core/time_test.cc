#include "core/time.h"

#include <gtest/gtest.h>

#include <limits>

namespace twin {
namespace {

TEST(TimeTest, SecondsAreRoundedToTheNearestNanosecond) {
  EXPECT_EQ(DurationFromSeconds(1.4e-9), Duration{1});
  EXPECT_EQ(DurationFromSeconds(1.6e-9), Duration{2});
  EXPECT_EQ(DurationFromSeconds(-1.6e-9), Duration{-2});
  EXPECT_EQ(DurationFromSeconds(3.5), Duration{3'500'000'000});
}

TEST(TimeTest, NanosecondsLoseTheirFraction) {
  EXPECT_EQ(DurationFromNanoseconds(1.9), Duration{1});
  EXPECT_EQ(DurationFromNanoseconds(-1.9), Duration{-1});
}

// The range of int64 nanoseconds ends at 9.22e9 s.
TEST(TimeTest, SecondsOutsideTheRangeOfDurationsGiveItsEnds) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(DurationFromSeconds(9.3e9), Duration::max());
  EXPECT_EQ(DurationFromSeconds(kInfinity), Duration::max());
  EXPECT_EQ(DurationFromSeconds(-9.3e9), Duration::min());
  EXPECT_EQ(DurationFromSeconds(-kInfinity), Duration::min());
  EXPECT_EQ(DurationFromSeconds(std::numeric_limits<double>::quiet_NaN()), Duration::max());
  EXPECT_EQ(DurationFromNanoseconds(9223372036854775808.0), Duration::max());  // 2^63
  EXPECT_EQ(DurationFromNanoseconds(-9223372036854775808.0), Duration::min());
}

}  // namespace
}  // namespace twin
