#include "sched/cache/block_key_index.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <vector>

#include "core/random.h"

namespace twin {
namespace {

BlockId Id(std::int64_t number) { return BlockId{static_cast<std::int32_t>(number)}; }

void List(BlockKeyIndex& index, std::vector<Block>& blocks, BlockId id, BlockKey key) {
  blocks[Index(id)].carries_key = true;
  blocks[Index(id)].key = key;
  index.Add(blocks, id);
}

TEST(BlockKeyIndexTest, FindsNothingBeforeTheFirstAdd) {
  const std::vector<Block> blocks(3);
  EXPECT_EQ(BlockKeyIndex().Find(blocks, SharedKey(1)), BlockId::kNone);
}

TEST(BlockKeyIndexTest, OfOneKeyFindsTheBlockThatWasAddedFirst) {
  std::vector<Block> blocks(3);
  BlockKeyIndex index;
  for (const std::int64_t number : {2, 0, 1}) List(index, blocks, Id(number), SharedKey(7));
  EXPECT_EQ(index.Find(blocks, SharedKey(7)), Id(2));
  index.Remove(blocks, Id(0));
  EXPECT_EQ(index.Find(blocks, SharedKey(7)), Id(2));
  index.Remove(blocks, Id(2));
  EXPECT_EQ(index.Find(blocks, SharedKey(7)), Id(1));
  index.Remove(blocks, Id(1));
  EXPECT_EQ(index.Find(blocks, SharedKey(7)), BlockId::kNone);
}

TEST(BlockKeyIndexDeathTest, RefusesToListABlockTwice) {
  std::vector<Block> blocks(1);
  BlockKeyIndex index;
  List(index, blocks, Id(0), SharedKey(1));
  EXPECT_DEATH(index.Add(blocks, Id(0)), "listed");
}

// The model keeps, for every key, its blocks in the order of addition. 64 blocks in 128 slots under
// keys whose hashes differ little, so that clusters form, are split and close again.
TEST(BlockKeyIndexTest, AgreesWithAMapOfListsUnderRandomUse) {
  constexpr std::int64_t kBlocks = 64;
  constexpr std::int64_t kKeys = 96;
  Random random(3, "index");
  std::vector<Block> blocks(kBlocks);
  BlockKeyIndex index;
  std::map<std::int64_t, std::vector<BlockId>> model;
  std::vector<std::int64_t> key_of(kBlocks, -1);
  for (int step = 0; step < 50'000; ++step) {
    const std::int64_t number = random.UniformInt(0, kBlocks - 1);
    std::int64_t& key = key_of[static_cast<std::size_t>(number)];
    if (key >= 0) {
      index.Remove(blocks, Id(number));
      blocks[static_cast<std::size_t>(number)].carries_key = false;
      std::erase(model[key], Id(number));
      key = -1;
    } else {
      key = random.UniformInt(0, kKeys - 1);
      List(index, blocks, Id(number), SharedKey(static_cast<std::uint64_t>(key)));
      model[key].push_back(Id(number));
    }
    const std::int64_t asked = random.UniformInt(0, kKeys - 1);
    const std::vector<BlockId>& expected = model[asked];
    ASSERT_EQ(index.Find(blocks, SharedKey(static_cast<std::uint64_t>(asked))),
              expected.empty() ? BlockId::kNone : expected.front());
  }
}

}  // namespace
}  // namespace twin
