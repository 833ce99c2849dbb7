#include "sched/cache/kv_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace twin {
namespace {

std::vector<std::uint32_t> Ids(const std::vector<BlockId>& blocks) {
  std::vector<std::uint32_t> ids;
  for (const BlockId block : blocks) ids.push_back(Index(block));
  return ids;
}

using List = std::vector<std::uint32_t>;

// Takes all free blocks: their order is the order of the free queue.
List FreeQueue(KvPool& pool) {
  BlockTable all;
  const std::int32_t blocks = pool.free();
  EXPECT_TRUE(pool.Grow(all, blocks * pool.block_size()));
  return Ids(all.device);
}

std::vector<BlockKey> Keys(std::initializer_list<std::uint64_t> numbers) {
  std::vector<BlockKey> keys;
  for (const std::uint64_t number : numbers) keys.push_back(SharedKey(number));
  return keys;
}

TEST(KvPoolTest, RoundsTokensUpToBlocksOfAnySize) {
  for (const std::int32_t size : {1, 3, 4, 16}) {
    const KvPool pool({.block_size = size, .blocks = 1});
    for (std::int32_t tokens = 0; tokens < 100; ++tokens) {
      EXPECT_EQ(pool.BlocksFor(tokens), tokens / size + (tokens % size > 0 ? 1 : 0));
    }
  }
}

TEST(KvPoolTest, GrowsByWholeBlocksLowestIdFirst) {
  KvPool pool({.block_size = 4, .blocks = 5});
  BlockTable table;
  ASSERT_TRUE(pool.Grow(table, 5));
  EXPECT_EQ(Ids(table.device), (List{0, 1}));
  ASSERT_TRUE(pool.Grow(table, 8));
  EXPECT_EQ(table.held(), 2);
  ASSERT_TRUE(pool.Grow(table, 9));
  EXPECT_EQ(Ids(table.device), (List{0, 1, 2}));
  EXPECT_EQ(pool.free(), 2);
}

TEST(KvPoolTest, KeptBlocksOutliveTheirSequenceUntilTheyAreDiscarded) {
  KvPool pool({.block_size = 4, .blocks = 5});
  BlockTable first;
  ASSERT_TRUE(pool.Grow(first, 12));
  pool.Keep(BlockId{0});
  pool.Keep(BlockId{1});
  EXPECT_EQ(pool.cached(), 0);
  pool.Release(first);
  EXPECT_EQ(pool.free(), 3);
  EXPECT_EQ(pool.cached(), 2);
  EXPECT_TRUE(pool.Audit({}));

  BlockTable second;
  pool.AttachKept(second, std::array{BlockId{0}});
  EXPECT_EQ(second.capacity_tokens, 4);
  EXPECT_EQ(pool.cached(), 1);
  ASSERT_TRUE(pool.Grow(second, 8));  // a block of its own
  const std::int32_t free = pool.free();
  pool.ReplaceByKept(second, 1, BlockId{1});
  EXPECT_EQ(Ids(second.device), (List{0, 1}));
  EXPECT_EQ(pool.free(), free + 1);
  EXPECT_EQ(pool.cached(), 0);
  const std::array<const BlockTable*, 1> tables = {&second};
  EXPECT_TRUE(pool.Audit(tables));

  pool.Release(second);
  pool.Discard(BlockId{0});
  EXPECT_EQ(pool.cached(), 1);
  EXPECT_EQ(pool.discards(), 1);
  EXPECT_EQ(pool.free(), 4);
  EXPECT_TRUE(pool.Audit({}));
}

TEST(KvPoolTest, ChangesNothingWhenItCannotGrowWhole) {
  KvPool pool({.block_size = 4, .blocks = 3});
  BlockTable table;
  ASSERT_TRUE(pool.Grow(table, 4));
  EXPECT_FALSE(pool.Grow(table, 13));
  EXPECT_EQ(table.held(), 1);
  EXPECT_EQ(pool.free(), 2);
}

TEST(KvPoolTest, ReservationsAreNotFreeAndServeTheirOwnerFirst) {
  KvPool pool({.block_size = 4, .blocks = 4});
  BlockTable owner;
  BlockTable other;
  ASSERT_TRUE(pool.Reserve(owner, 3));
  EXPECT_EQ(pool.free(), 1);
  EXPECT_EQ(pool.reserved(), 3);
  EXPECT_FALSE(pool.Reserve(other, 2));
  EXPECT_FALSE(pool.Grow(other, 8));
  ASSERT_TRUE(pool.Grow(other, 4));
  ASSERT_TRUE(pool.Grow(owner, 8));
  EXPECT_EQ(owner.reserved_blocks, 1);
  EXPECT_EQ(pool.free(), 0);
  ASSERT_TRUE(pool.Grow(owner, 12));
  EXPECT_FALSE(pool.Grow(owner, 13));
  const std::array<const BlockTable*, 2> tables = {&owner, &other};
  EXPECT_TRUE(pool.Audit(tables));
  pool.Release(owner);
  EXPECT_EQ(pool.free(), 3);
}

TEST(KvPoolTest, GivesAnUnusedReservationBack) {
  KvPool pool({.block_size = 4, .blocks = 4});
  BlockTable table;
  ASSERT_TRUE(pool.Reserve(table, 4));
  ASSERT_TRUE(pool.Grow(table, 1));
  pool.Release(table);
  EXPECT_EQ(pool.free(), 4);
  EXPECT_EQ(pool.reserved(), 0);
}

TEST(KvPoolTest, ReleasesTheLastBlockFirstToTheBack) {
  KvPool pool({.block_size = 1, .blocks = 5});
  BlockTable a;
  ASSERT_TRUE(pool.Grow(a, 3));
  pool.Release(a);
  EXPECT_EQ(FreeQueue(pool), (List{3, 4, 2, 1, 0}));
}

// vLLM 0.33.0 (R3): blocks without a key go to the front, the last block of the sequence foremost;
// blocks with a key to the back.
TEST(KvPoolTest, KeylessFrontReusesBlocksWithoutContentFirst) {
  KvPool pool({.block_size = 1, .blocks = 6, .release_order = ReleaseOrder::kKeylessFront});
  BlockTable a;
  ASSERT_TRUE(pool.Grow(a, 4));
  pool.Publish(a, Keys({10, 11}), 2);
  pool.Release(a);
  EXPECT_EQ(FreeQueue(pool), (List{3, 2, 4, 5, 1, 0}));
}

TEST(KvPoolTest, KeylessFrontWorksOnAnEmptyQueue) {
  KvPool pool({.block_size = 1, .blocks = 2, .release_order = ReleaseOrder::kKeylessFront});
  BlockTable a;
  ASSERT_TRUE(pool.Grow(a, 2));
  pool.Release(a);
  EXPECT_EQ(FreeQueue(pool), (List{1, 0}));
}

TEST(KvPoolTest, SwapsOutToHostBlocksAndBackInOrder) {
  KvPool pool({.block_size = 4, .blocks = 3, .host_blocks = 4});
  BlockTable a;
  ASSERT_TRUE(pool.Grow(a, 9));
  ASSERT_TRUE(pool.SwapOut(a));
  EXPECT_EQ(Ids(a.host), (List{0, 1, 2}));
  EXPECT_TRUE(a.device.empty());
  EXPECT_EQ(pool.free(), 3);
  EXPECT_EQ(pool.host_free(), 1);
  const std::array<const BlockTable*, 1> tables = {&a};
  EXPECT_TRUE(pool.Audit(tables));
  ASSERT_TRUE(pool.SwapIn(a));
  EXPECT_EQ(a.held(), 3);
  EXPECT_TRUE(a.host.empty());
  EXPECT_EQ(pool.host_free(), 4);
}

TEST(KvPoolTest, RefusesToSwapWhatDoesNotFitAndChangesNothing) {
  KvPool pool({.block_size = 4, .blocks = 3, .host_blocks = 1});
  BlockTable a;
  BlockTable b;
  ASSERT_TRUE(pool.Grow(a, 8));
  ASSERT_TRUE(pool.Grow(b, 4));
  EXPECT_FALSE(pool.SwapOut(a));
  EXPECT_EQ(a.held(), 2);
  ASSERT_TRUE(pool.SwapOut(b));
  ASSERT_TRUE(pool.Grow(a, 12));
  EXPECT_FALSE(pool.SwapIn(b));
  EXPECT_EQ(b.host.size(), 1u);
  pool.Release(b);
  EXPECT_EQ(pool.host_free(), 1);
}

TEST(KvPoolTest, FindsTheLongestLeadingRunOfKeysWithinTheLimit) {
  KvPool pool({.block_size = 4, .blocks = 6});
  BlockTable a;
  ASSERT_TRUE(pool.Grow(a, 12));
  pool.Publish(a, Keys({1, 2, 3}), 2);
  EXPECT_EQ(pool.Lookup(Keys({1, 2, 3}), 9).blocks, 2);
  EXPECT_EQ(pool.Lookup(Keys({1, 9, 3}), 9).blocks, 1);
  EXPECT_EQ(pool.Lookup(Keys({9, 2}), 9).blocks, 0);
  EXPECT_EQ(pool.Lookup(Keys({1, 2}), 1).blocks, 1);
  EXPECT_EQ(pool.Lookup(Keys({1, 2}), -1).blocks, 0);
  EXPECT_EQ(pool.Lookup(Keys({1, 2}), 2).free_blocks, 0);
  pool.Release(a);
  EXPECT_EQ(pool.Lookup(Keys({1, 2}), 2).free_blocks, 2);
}

TEST(KvPoolTest, SharesAttachedBlocksUntilTheLastHolderReleases) {
  KvPool pool({.block_size = 4, .blocks = 4});
  BlockTable a;
  BlockTable b;
  const std::vector<BlockKey> keys = Keys({1, 2});
  ASSERT_TRUE(pool.Grow(a, 8));
  pool.Publish(a, keys, 2);
  pool.Attach(b, keys, 2);
  EXPECT_EQ(Ids(b.device), (List{0, 1}));
  EXPECT_EQ(pool.free(), 2);
  const std::array<const BlockTable*, 2> tables = {&a, &b};
  EXPECT_TRUE(pool.Audit(tables));
  pool.Release(a);
  EXPECT_EQ(pool.free(), 2);
  pool.Release(b);
  EXPECT_EQ(pool.free(), 4);
}

TEST(KvPoolTest, ForgetsTheKeyOfABlockThatIsTakenForSomethingElse) {
  KvPool pool({.block_size = 4, .blocks = 2});
  BlockTable a;
  BlockTable b;
  ASSERT_TRUE(pool.Grow(a, 8));
  pool.Publish(a, Keys({1, 2}), 2);
  pool.Release(a);  // free queue 1, 0: the prefix's tail goes first
  ASSERT_TRUE(pool.Grow(b, 4));
  EXPECT_EQ(Ids(b.device), (List{1}));
  EXPECT_EQ(pool.Lookup(Keys({1, 2}), 2).blocks, 1);
}

TEST(KvPoolTest, OfSeveralBlocksWithOneKeyTheFirstPublishedIsFound) {
  KvPool pool({.block_size = 4, .blocks = 3});
  BlockTable a;
  BlockTable b;
  BlockTable c;
  const std::vector<BlockKey> keys = Keys({7});
  ASSERT_TRUE(pool.Grow(a, 4));
  ASSERT_TRUE(pool.Grow(b, 4));
  pool.Publish(b, keys, 1);
  pool.Publish(a, keys, 1);
  pool.Attach(c, keys, 1);
  EXPECT_EQ(Ids(c.device), (List{1}));
}

// Only their own sequence asks for private keys, and only after it lost its blocks.
TEST(KvPoolTest, FindsPrivateKeysOnceTheirSequenceIsSuspended) {
  KvPool pool({.block_size = 4, .blocks = 4});
  const std::vector<BlockKey> keys = {SharedKey(1), PrivateKey(2), PrivateKey(3)};
  BlockTable table;
  ASSERT_TRUE(pool.Grow(table, 12));
  pool.Publish(table, keys, 3);
  EXPECT_EQ(pool.Lookup(keys, 3).blocks, 1);
  pool.Suspend(table, keys);
  EXPECT_EQ(pool.free(), 4);
  EXPECT_EQ(pool.Lookup(keys, 3).blocks, 3);
  EXPECT_EQ(pool.Lookup(keys, 3).free_blocks, 3);
  pool.Attach(table, keys, 2);
  EXPECT_EQ(Ids(table.device), (List{0, 1}));
}

TEST(KvPoolTest, PrivateKeysOfAReleasedSequenceAreGone) {
  KvPool pool({.block_size = 4, .blocks = 4});
  const std::vector<BlockKey> keys = {PrivateKey(2)};
  BlockTable table;
  ASSERT_TRUE(pool.Grow(table, 4));
  pool.Publish(table, keys, 1);
  pool.Release(table);
  EXPECT_EQ(pool.Lookup(keys, 1).blocks, 0);
}

TEST(KvPoolTest, TakesNamesBack) {
  KvPool pool({.block_size = 4, .blocks = 3});
  BlockTable a;
  const std::vector<BlockKey> keys = Keys({1, 2, 3});
  ASSERT_TRUE(pool.Grow(a, 12));
  pool.Publish(a, keys, 3);
  pool.Unpublish(a, 1);
  EXPECT_EQ(pool.Lookup(keys, 3).blocks, 1);
  pool.Publish(a, keys, 2);
  EXPECT_EQ(pool.Lookup(keys, 3).blocks, 2);
  pool.Unpublish(a, 2);
  EXPECT_EQ(pool.Lookup(keys, 3).blocks, 2);
}

// The free queue of golden case vllm_v1_prefix-ex4d, step by step (blocks numbered from 0 here).
TEST(KvPoolTest, FreeQueueOfTheWorkedPrefixExample) {
  KvPool pool({.block_size = 4, .blocks = 8});
  BlockTable a;
  BlockTable b;
  BlockTable c;
  BlockTable d;
  const std::vector<BlockKey> common = Keys({1, 2});
  ASSERT_TRUE(pool.Grow(a, 10));
  pool.Publish(a, common, 2);
  pool.Attach(b, common, 2);
  ASSERT_TRUE(pool.Grow(b, 9));
  EXPECT_EQ(Ids(b.device), (List{0, 1, 3}));
  pool.Release(b);
  pool.Release(a);  // 4 5 6 7 3 2 1 0
  pool.Attach(c, common, 1);
  ASSERT_TRUE(pool.Grow(c, 8));
  EXPECT_EQ(Ids(c.device), (List{0, 4}));
  ASSERT_TRUE(pool.Grow(c, 9));
  ASSERT_TRUE(pool.Grow(d, 20));
  EXPECT_EQ(Ids(d.device), (List{6, 7, 3, 2, 1}));
  EXPECT_EQ(pool.Lookup(common, 2).blocks, 1);  // block 1 was evicted
  pool.Release(c);                              // 5 4 0
  ASSERT_TRUE(pool.Grow(d, 21));
  pool.Release(d);
  EXPECT_EQ(FreeQueue(pool), (List{4, 0, 5, 1, 2, 3, 7, 6}));
}

TEST(KvPoolTest, AuditFindsATableThatWasTamperedWith) {
  KvPool pool({.block_size = 4, .blocks = 4, .host_blocks = 1});
  BlockTable a;
  ASSERT_TRUE(pool.Grow(a, 8));
  const std::array<const BlockTable*, 1> tables = {&a};
  EXPECT_TRUE(pool.Audit(tables));
  EXPECT_FALSE(pool.Audit({}));
  const BlockTable untouched = a;
  a.device.pop_back();
  EXPECT_FALSE(pool.Audit(tables));
  a = untouched;
  a.device.back() = a.device.front();
  EXPECT_FALSE(pool.Audit(tables));
  a = untouched;
  a.reserved_blocks = 1;
  EXPECT_FALSE(pool.Audit(tables));
  a = untouched;
  a.host.push_back(BlockId{0});
  EXPECT_FALSE(pool.Audit(tables));
}

}  // namespace
}  // namespace twin
