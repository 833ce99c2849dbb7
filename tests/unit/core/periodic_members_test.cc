#include "core/periodic_members.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "core/random.h"

namespace twin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::size_t> Due(const PeriodicMembers& members, std::int32_t tick) {
  std::vector<std::size_t> due;
  members.ForEachDue(tick, [&](std::size_t i) { due.push_back(i); });
  return due;
}

TEST(PeriodicMembersTest, VisitsMembersAtTheirTicksInTheirOrder) {
  PeriodicMembers members;
  members.Assign(4, std::array<std::int32_t, 5>{1, 4, 1, 3, 5});
  EXPECT_THAT(Due(members, 1), ElementsAre(0, 2, 4));  // 5 = 1 + one period
  EXPECT_THAT(Due(members, 2), IsEmpty());
  EXPECT_THAT(Due(members, 3), ElementsAre(3));
  EXPECT_THAT(Due(members, 4), ElementsAre(1));
  EXPECT_THAT(Due(members, 401), ElementsAre(0, 2, 4));
}

TEST(PeriodicMembersTest, AssignLeavesNothingOfTheMembersBefore) {
  Random random(1, "periodic members");
  PeriodicMembers members;
  for (int round = 0; round < 200; ++round) {
    const auto period = static_cast<std::int32_t>(random.UniformInt(1, 9));
    std::vector<std::int32_t> firsts(static_cast<std::size_t>(random.UniformInt(0, 12)));
    for (std::int32_t& first : firsts) first = static_cast<std::int32_t>(random.UniformInt(0, 20));
    members.Assign(period, firsts);
    for (std::int32_t tick = 0; tick < 2 * period; ++tick) {
      std::vector<std::size_t> expected;
      for (std::size_t i = 0; i < firsts.size(); ++i) {
        if (firsts[i] % period == tick % period) expected.push_back(i);
      }
      ASSERT_EQ(Due(members, tick), expected) << "round " << round << ", tick " << tick;
    }
  }
}

}  // namespace
}  // namespace twin
