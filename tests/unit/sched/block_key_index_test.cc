#include "sched/cache/block_key_index.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <vector>

#include "core/random.h"

namespace twin {
namespace {

BlockId Id(std::int64_t number) { return BlockId{static_cast<std::int32_t>(number)}; }

TEST(BlockKeyIndexTest, FindsNothingBeforeTheFirstAdd) {
  EXPECT_EQ(BlockKeyIndex(3).Find(SharedKey(1)), BlockId::kNone);
}

TEST(BlockKeyIndexTest, OfOneKeyFindsTheBlockThatWasAddedFirst) {
  BlockKeyIndex index(3);
  for (const std::int64_t number : {2, 0, 1}) index.Add(Id(number), SharedKey(7));
  EXPECT_EQ(index.Find(SharedKey(7)), Id(2));
  index.Remove(Id(0));
  EXPECT_EQ(index.Find(SharedKey(7)), Id(2));
  index.Remove(Id(2));
  EXPECT_EQ(index.Find(SharedKey(7)), Id(1));
  index.Remove(Id(1));
  EXPECT_EQ(index.Find(SharedKey(7)), BlockId::kNone);
}

TEST(BlockKeyIndexDeathTest, RefusesToListABlockTwice) {
  BlockKeyIndex index(1);
  index.Add(Id(0), SharedKey(1));
  EXPECT_DEATH(index.Add(Id(0), SharedKey(2)), "kNotListed");
}

// The model keeps, for every key, its blocks in the order of addition. 64 blocks in 128 slots under
// keys whose hashes differ little, so that clusters form, are split and close again.
TEST(BlockKeyIndexTest, AgreesWithAMapOfListsUnderRandomUse) {
  constexpr std::int64_t kBlocks = 64;
  constexpr std::int64_t kKeys = 96;
  Random random(3, "index");
  BlockKeyIndex index(kBlocks);
  std::map<std::int64_t, std::vector<BlockId>> model;
  std::vector<std::int64_t> key_of(kBlocks, -1);
  for (int step = 0; step < 50'000; ++step) {
    const std::int64_t number = random.UniformInt(0, kBlocks - 1);
    std::int64_t& key = key_of[static_cast<std::size_t>(number)];
    if (key >= 0) {
      index.Remove(Id(number));
      std::erase(model[key], Id(number));
      key = -1;
    } else {
      key = random.UniformInt(0, kKeys - 1);
      index.Add(Id(number), SharedKey(static_cast<std::uint64_t>(key)));
      model[key].push_back(Id(number));
    }
    const std::int64_t asked = random.UniformInt(0, kKeys - 1);
    const std::vector<BlockId>& expected = model[asked];
    ASSERT_EQ(index.Find(SharedKey(static_cast<std::uint64_t>(asked))),
              expected.empty() ? BlockId::kNone : expected.front());
  }
}

}  // namespace
}  // namespace twin
