// Expected values: by hand from the rules in sched/cache/windowed_radix_cache.h and its source.
#include "sched/cache/windowed_radix_cache.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "core/hash.h"
#include "sched/kv_editor.h"

namespace twin {
namespace {

// 20 blocks of one token, 10 pages, windows of 2.
class WindowedRadixCacheTest : public ::testing::Test {
 protected:
  // A sequence that has computed its prompt without the cache.
  Sequence& Computed(std::uint32_t id, const std::vector<std::uint64_t>& tokens) {
    Sequence& s = sequences.Open(RequestId{id});
    s.id = RequestId{id};
    s.known = s.computed = s.prompt_tokens = static_cast<std::int32_t>(tokens.size());
    std::uint64_t key = 0;
    for (const std::uint64_t token : tokens) {
      key = MixWords(key, token);
      s.keys.push_back(SharedKey(key));
    }
    EXPECT_TRUE(pool.Grow(s.blocks, s.known));
    return s;
  }
  bool Audit() const {
    std::vector<WindowedRadixCache::Held> held;
    sequences.ForEach([&](RequestId id, const Sequence& s) {
      held.push_back({&s, &holds[Index(id)]});
    });
    return cache.Audit(held);
  }

  KvPool pool{KvPoolConfig{.block_size = 1, .blocks = 20}};
  WindowedRadixCache cache{pool.config(), true, {.pages = 10, .window = 2}};
  SequenceTable sequences;
  std::vector<KvOperation> log;
  KvEditor blocks{sequences, pool, log};
  std::vector<TreeHold> holds{2};
};

// Before 6 tokens enter the tree, the pages before 5 - 2 = 3 go: 1 2 3 (a tombstone) | 4 | 5 6. The
// sequence locks the window 5 6, so that the page of 4 can be evicted.
TEST_F(WindowedRadixCacheTest, ACheckpointLeavesOneWindowAndLocksIt) {
  const Sequence& s = Computed(0, {1, 2, 3, 4, 5, 6});
  cache.TakePages(s, holds[0]);
  EXPECT_EQ(cache.free_pages(), 4);
  cache.Checkpoint(blocks, s, 6, holds[0]);
  EXPECT_EQ(cache.free_pages(), 7);
  EXPECT_EQ(cache.evictable_pages(), 1);
  EXPECT_EQ(cache.evictable(), 0);
  EXPECT_EQ(holds[0].blocks, 6);
  EXPECT_TRUE(Audit());
}

// B = 1 2 3 4 9 finds 4 tokens that it cannot use: 4 alone is no window. It computes all, enters 4
// tokens first, and gives the tombstone the pages of 2 and 3; A locks the blocks, which stay.
TEST_F(WindowedRadixCacheTest, ABranchIsEnteredAloneAndRevivesTombstones) {
  Computed(0, {1, 2, 3, 4, 5, 6});
  Sequence& b = Computed(1, {1, 2, 3, 4, 9});
  const Sequence& a = sequences[RequestId{0}];  // opening B may have moved it
  cache.TakePages(a, holds[0]);
  cache.Checkpoint(blocks, a, 6, holds[0]);
  holds[1] = cache.Match(b, 4);
  EXPECT_EQ(holds[1].blocks, 0);
  EXPECT_EQ(holds[1].window.branch, 4);
  cache.Lock(holds[1]);
  cache.TakePages(b, holds[1]);
  EXPECT_EQ(cache.free_pages(), 2);
  cache.Checkpoint(blocks, b, 5, holds[1]);
  EXPECT_EQ(holds[1].blocks, 4);
  EXPECT_EQ(holds[1].window.branch, 0);
  // In use: 2 3 | 4 | 5 6 of the tree, and B's own page of 9. B's copies of 4 blocks are gone.
  EXPECT_EQ(cache.free_pages(), 4);
  EXPECT_EQ(cache.evictable_pages(), 0);
  EXPECT_EQ(pool.free(), 13);
  EXPECT_EQ(std::vector<BlockId>(b.blocks.device.begin(), b.blocks.device.begin() + 4),
            std::vector<BlockId>(a.blocks.device.begin(), a.blocks.device.begin() + 4));
  EXPECT_TRUE(Audit());

  // B goes: the window 2 3 | 4 is unlocked, and can go although A holds the blocks.
  cache.Drop(b, holds[1]);
  pool.Release(b.blocks);
  EXPECT_EQ(cache.free_pages(), 5);
  EXPECT_EQ(cache.evictable_pages(), 3);
  EXPECT_FALSE(cache.MakeFree(blocks, 20));
  EXPECT_EQ(cache.free_pages(), 8);
  EXPECT_EQ(cache.evicted_pages(), 3);
  EXPECT_EQ(pool.discards(), 0);
  EXPECT_TRUE(Audit());
}

// 3 tokens behind the window of 2 are less than an interval of 4, and 4 are one.
TEST_F(WindowedRadixCacheTest, PagesBehindTheWindowGoInBursts) {
  const Sequence& s = Computed(0, {1, 2, 3, 4, 5, 6, 7});
  cache.TakePages(s, holds[0]);
  cache.FreeBehind(s, holds[0], 5, 4);
  EXPECT_EQ(cache.free_pages(), 3);
  cache.FreeBehind(s, holds[0], 6, 4);
  EXPECT_EQ(cache.free_pages(), 7);
  EXPECT_EQ(holds[0].window.freed, 4);
  EXPECT_TRUE(Audit());
}

// A finished sequence enters what it has pages for, and gives up the rest of its pages.
TEST_F(WindowedRadixCacheTest, AFinishedSequenceGivesUpWhatTheTreeDoesNotTake) {
  Sequence& s = Computed(0, {1, 2, 3, 4, 5, 6});
  cache.TakePages(s, holds[0]);
  cache.FreeBehind(s, holds[0], 5, 1);  // 1 2 3
  cache.Finish(blocks, s, 5, holds[0]);
  // 1 2 3 | 4 5: the block of 6 is the sequence's own.
  EXPECT_EQ(cache.free_pages(), 8);
  EXPECT_EQ(cache.evictable_pages(), 2);
  pool.Release(s.blocks);
  EXPECT_EQ(pool.free(), 15);
  EXPECT_EQ(pool.cached(), 5);
  EXPECT_TRUE(Audit());
  EXPECT_TRUE(cache.MakeFree(blocks, 9));
  EXPECT_EQ(cache.free_pages(), 10);
}

}  // namespace
}  // namespace twin
