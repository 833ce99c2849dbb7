// Expected values: by hand from the rules in sched/cache/windowed_radix_tree.h and its source.
#include "sched/cache/windowed_radix_tree.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "core/hash.h"

namespace twin {
namespace {

using Tokens = std::vector<std::uint64_t>;
using Blocks = std::vector<std::int32_t>;
using Node = RadixTree::Node;

Blocks Numbers(const std::vector<BlockId>& ids) {
  Blocks numbers;
  for (const BlockId id : ids) numbers.push_back(static_cast<std::int32_t>(Index(id)));
  return numbers;
}

// Blocks of one token, numbered as they are taken; windows of two tokens.
class WindowedTokens {
 public:
  static std::vector<BlockKey> Keys(const Tokens& tokens) {
    std::vector<BlockKey> keys;
    std::uint64_t key = 0;
    for (const std::uint64_t token : tokens) {
      key = MixWords(key, token);
      keys.push_back(SharedKey(key));
    }
    return keys;
  }

  RadixTree::Insertion Insert(const Tokens& tokens, std::int32_t held = 0, std::int32_t paged = 0) {
    std::vector<BlockId> blocks(tokens.size());
    for (BlockId& block : blocks) block = BlockId{next_++};
    adopted.clear();
    return tree.InsertWindow(Keys(tokens), blocks, held, paged, adopted);
  }
  WindowedRadixTree::WindowHit Match(const Tokens& tokens) {
    return tree.MatchWindow(Keys(tokens));
  }
  // Blocks that went, and blocks that lost their pages.
  std::pair<Blocks, Blocks> EvictWindows(std::int32_t pages) {
    std::vector<BlockId> evicted;
    std::vector<BlockId> tombstoned;
    tree.EvictWindows(pages, evicted, tombstoned);
    return {Numbers(evicted), Numbers(tombstoned)};
  }
  // Blocks with pages and without.
  std::pair<std::size_t, std::size_t> Counted() const {
    std::vector<BlockId> paged;
    std::vector<BlockId> bare;
    tree.ListBlocks(paged, bare);
    return {paged.size(), bare.size()};
  }

  WindowedRadixTree tree{1000, 1, 2};
  std::vector<WindowedRadixTree::Adopted> adopted;

 private:
  std::int32_t next_ = 0;
};

using Pair = std::pair<Blocks, Blocks>;

// 1 2 3 | 4 5: the end has one window, so that the older part can go alone. Both have pages.
TEST(WindowedRadixTreeTest, ANewLeafEndsWithOneWindow) {
  WindowedTokens t;
  EXPECT_EQ(t.Insert({1, 2, 3, 4, 5}).present, 0);
  EXPECT_EQ(t.tree.window_size(), 5);
  EXPECT_EQ(t.EvictWindows(1), (Pair{{}, {0, 1, 2}}));
  EXPECT_EQ(t.Counted(), (std::pair<std::size_t, std::size_t>{2, 3}));
  // The blocks stay, and the window before the end is there.
  EXPECT_EQ(t.tree.size(), 5);
  EXPECT_EQ(t.Match({1, 2, 3, 4, 5, 6}).blocks, 5);
}

TEST(WindowedRadixTreeTest, AHitNeedsTheWindowBeforeItsEnd) {
  WindowedTokens t;
  t.Insert({1, 2, 3, 4, 5});
  // Unbroken from the root: any end will do.
  EXPECT_EQ(t.Match({1, 9}).blocks, 1);
  // 1 has just been used, and 2 3, which was split off, is older than the end 4 5.
  EXPECT_EQ(t.EvictWindows(1), (Pair{{}, {1, 2}}));
  WindowedRadixTree::WindowHit hit = t.Match({1, 2, 3, 4, 9});
  EXPECT_EQ(hit.blocks, 1);  // 4 alone is no window, and 2 3 is a tombstone
  EXPECT_EQ(hit.known_blocks, 4);
  hit = t.Match({1, 2, 3, 4, 5, 9});
  EXPECT_EQ(hit.blocks, 5);
}

// Tokens that the sequence entered without pages become a tombstone: 1 2 3 | 4 5.
TEST(WindowedRadixTreeTest, BlocksWithoutPagesAreEnteredAsTombstones) {
  WindowedTokens t;
  t.Insert({1, 2, 3, 4, 5}, 0, 3);
  EXPECT_EQ(t.tree.window_size(), 2);
  EXPECT_EQ(t.Match({1, 2, 3}).blocks, 0);
  EXPECT_EQ(t.Match({1, 2, 3, 4, 5}).blocks, 5);
  t.Insert({7, 8}, 0, 2);
  EXPECT_EQ(t.Match({7, 8}).blocks, 0);
  EXPECT_EQ(t.tree.window_size(), 2);
}

// The tombstone 1 2 3 gets pages from position 2 on, and with them the block of the sequence.
TEST(WindowedRadixTreeTest, AnInsertionRevivesTombstones) {
  WindowedTokens t;
  t.Insert({1, 2, 3, 4, 5}, 0, 3);                        // blocks 0 to 4
  EXPECT_EQ(t.Insert({1, 2, 3, 4, 5}, 0, 2).present, 5);  // blocks 5 to 9
  ASSERT_EQ(t.adopted.size(), 1u);
  EXPECT_EQ(t.adopted[0].position, 2);
  EXPECT_EQ(t.adopted[0].before, BlockId{2});
  const WindowedRadixTree::WindowHit hit = t.Match({1, 2, 3, 4});
  EXPECT_EQ(hit.blocks, 4);
  std::vector<BlockId> path(4);
  t.tree.CopyPath(hit.node, 0, path);
  EXPECT_EQ(Numbers(path), (Blocks{0, 1, 7, 3}));
  EXPECT_EQ(t.tree.window_size(), 3);
}

// A locked node keeps its blocks; what the sequence holds of the tree is passed over.
TEST(WindowedRadixTreeTest, RevivedNodesKeepTheirBlocksWhereTheyAreLockedOrHeld) {
  WindowedTokens t;
  const Node end = t.Insert({1, 2, 3, 4, 5}, 0, 3).node;
  t.Insert({1, 2, 3, 4, 5}, 3, 0);
  EXPECT_EQ(t.tree.window_size(), 2);
  t.tree.Lock(end);
  t.Insert({1, 2, 3, 4, 5}, 0, 0);
  EXPECT_TRUE(t.adopted.empty());
  EXPECT_EQ(t.tree.window_size(), 5);
}

// 1 2 3 | 4 | 5: two nodes cover the window before the end of 5.
TEST(WindowedRadixTreeTest, LocksCoverOneWindow) {
  WindowedTokens t;
  const Node end = t.Insert({1, 2, 3, 4, 5}).node;
  t.Match({1, 2, 3, 4});
  t.tree.Lock(end);
  const WindowedRadixTree::WindowLock lock = t.tree.LockWindow(end);
  EXPECT_TRUE(lock.is_whole);
  EXPECT_EQ(lock.begin, 3);
  EXPECT_EQ(t.tree.evictable(), 0);
  EXPECT_EQ(t.tree.window_evictable(), 3);
  EXPECT_EQ(t.EvictWindows(5), (Pair{{}, {0, 1, 2}}));
  t.tree.UnlockWindow(lock);
  EXPECT_EQ(t.tree.window_evictable(), 2);
  // Nobody locks the window parts; the blocks are still locked. 5 was used before 4, by the match.
  EXPECT_EQ(t.EvictWindows(2), (Pair{{}, {4, 3}}));
  t.tree.Unlock(end);
  EXPECT_EQ(t.tree.size(), 5);
}

TEST(WindowedRadixTreeTest, ShortPrefixesAreLockedUpToTheRoot) {
  WindowedTokens t;
  const Node end = t.Insert({1}).node;
  const WindowedRadixTree::WindowLock lock = t.tree.LockWindow(end);
  EXPECT_FALSE(lock.is_whole);
  t.Insert({1, 2, 3, 4});
  EXPECT_EQ(t.tree.window_evictable(), 3);
  t.tree.UnlockWindow(lock);
  EXPECT_EQ(t.tree.window_evictable(), 4);
}

// An unlocked leaf goes with its blocks, in the order of the window parts: a visit renews the
// latest window and a block only, so that of 1 2 3 | 4 5 6 | 7 8 the first goes before 9.
TEST(WindowedRadixTreeTest, VisitsRenewTheLatestWindow) {
  WindowedTokens t;
  t.Insert({1, 2, 3, 4, 5, 6});        // 0 to 5: 1 2 3 4 | 5 6
  t.Insert({1, 2, 3, 4, 5, 6, 7, 8});  // 12 and 13
  t.Insert({9});                       // 14
  t.Match({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(t.EvictWindows(1), (Pair{{}, {0, 1, 2, 3}}));
  EXPECT_EQ(t.EvictWindows(1), (Pair{{14}, {}}));
  EXPECT_EQ(t.EvictWindows(1), (Pair{{}, {4, 5}}));
  EXPECT_EQ(t.EvictWindows(1), (Pair{{12, 13}, {}}));
  EXPECT_EQ(t.tree.size(), 6);
  EXPECT_EQ(t.tree.window_size(), 0);
}

}  // namespace
}  // namespace twin
