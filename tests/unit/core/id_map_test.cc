#include "core/id_map.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

#include "core/random.h"

namespace twin {
namespace {

TEST(IdMapTest, HoldsWhatWasOpenedUntilItIsClosed) {
  IdMap<int> map;
  map.Open(RequestId{3}) = 30;
  map.Open(RequestId{7000}) = 70;
  EXPECT_EQ(map.size(), 2u);
  EXPECT_TRUE(map.contains(RequestId{3}));
  EXPECT_FALSE(map.contains(RequestId{4}));
  EXPECT_EQ(map[RequestId{7000}], 70);
  map.Close(RequestId{3});
  EXPECT_FALSE(map.contains(RequestId{3}));
  EXPECT_EQ(map.Find(RequestId{3}), nullptr);
  EXPECT_EQ(map.size(), 1u);
  map.Close(RequestId{7000});
  EXPECT_TRUE(map.empty());
}

TEST(IdMapTest, ReusesTheValueOfAClosedIdWithItsCapacity) {
  IdMap<std::vector<int>> map;
  map.Open(RequestId{0}).assign(100, 1);
  map.Close(RequestId{0});
  EXPECT_GE(map.Open(RequestId{1000}).capacity(), 100u);
}

TEST(IdMapTest, VisitsInRisingOrder) {
  IdMap<int> map;
  for (std::uint32_t i = 0; i < 50; ++i) map.Open(RequestId{i * 1000 + 1}) = 0;
  for (std::uint32_t i = 0; i < 50; i += 3) map.Close(RequestId{i * 1000 + 1});
  std::vector<std::uint32_t> seen;
  map.ForEach([&](RequestId id, int) { seen.push_back(Index(id)); });
  std::vector<std::uint32_t> expected;
  for (std::uint32_t i = 0; i < 50; ++i) {
    if (i % 3 != 0) expected.push_back(i * 1000 + 1);
  }
  EXPECT_EQ(seen, expected);
}

// Ids of one of a number of replicas: at equal or random distances. Whatever was opened and closed
// before, it holds what a std::map holds.
TEST(IdMapTest, AgreesWithAMapForIdsAtAnyDistance) {
  for (const std::int64_t distance : {1, 2, 8, 64, 1000, 4096}) {
    Random random(static_cast<std::uint64_t>(distance), "ids");
    IdMap<std::uint64_t> map;
    std::map<std::uint32_t, std::uint64_t> expected;
    std::uint32_t next = 0;
    for (int i = 0; i < 5000; ++i) {
      if (expected.empty() || random.UnitReal() < 0.52) {
        next += static_cast<std::uint32_t>(
            random.UnitReal() < 0.5 ? distance : random.UniformInt(1, 2 * distance));
        map.Open(RequestId{next}) = expected[next] = random.Next();
      } else {
        auto victim = expected.begin();
        std::advance(victim, random.UniformInt(0, static_cast<std::int64_t>(expected.size()) - 1));
        map.Close(RequestId{victim->first});
        expected.erase(victim);
      }
      ASSERT_EQ(map.size(), expected.size());
      const auto probe = static_cast<std::uint32_t>(random.UniformInt(0, next));
      ASSERT_EQ(map.contains(RequestId{probe}), expected.contains(probe));
    }
    for (const auto& [id, value] : expected) ASSERT_EQ(map[RequestId{id}], value);
  }
}

}  // namespace
}  // namespace twin
