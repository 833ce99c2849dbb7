// Expected values: by hand from the rules in sched/cache/radix_tree.h and its source.
#include "sched/cache/radix_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/hash.h"
#include "core/random.h"

namespace twin {
namespace {

using Tokens = std::vector<std::uint64_t>;

// A tree of tokens: blocks of one token, numbered as they are taken.
class TokenTree {
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

  // Returns where the tokens end and how many the tree had.
  RadixTree::Insertion Insert(const Tokens& tokens) {
    std::vector<BlockId> blocks(tokens.size());
    for (BlockId& block : blocks) block = BlockId{next_++};
    return tree_.Insert(Keys(tokens), blocks);
  }
  RadixTree::Hit Match(const Tokens& tokens) { return tree_.Match(Keys(tokens)); }
  std::vector<std::int32_t> Evict(std::int32_t blocks) {
    std::vector<BlockId> evicted;
    tree_.Evict(blocks, evicted);
    std::vector<std::int32_t> numbers;
    for (const BlockId id : evicted) numbers.push_back(static_cast<std::int32_t>(Index(id)));
    return numbers;
  }
  std::vector<std::int32_t> Path(RadixTree::Node node, std::int32_t first, std::size_t count) {
    std::vector<BlockId> path(count);
    tree_.CopyPath(node, first, path);
    std::vector<std::int32_t> numbers;
    for (const BlockId id : path) numbers.push_back(static_cast<std::int32_t>(Index(id)));
    return numbers;
  }
  RadixTree& tree() { return tree_; }

 private:
  RadixTree tree_{100'000};
  std::int32_t next_ = 0;
};

using Blocks = std::vector<std::int32_t>;

TEST(RadixTreeTest, MatchesSplitsAndEvictsAsTheRulesSay) {
  TokenTree tree;
  EXPECT_EQ(tree.Insert({1, 2, 3, 4}).present, 0);
  EXPECT_EQ(tree.tree().evictable(), 4);

  // B = 1 2 5 6 hits two tokens: 1 2 | 3 4 are split, 1 2 are locked.
  const RadixTree::Hit b = tree.Match({1, 2, 5, 6});
  EXPECT_EQ(b.blocks, 2);
  tree.tree().Lock(b.node);
  EXPECT_EQ(tree.tree().evictable(), 2);

  const RadixTree::Insertion prefilled = tree.Insert({1, 2, 5, 6});
  EXPECT_EQ(prefilled.present, 2);
  tree.tree().Lock(prefilled.node);
  tree.tree().Unlock(b.node);
  EXPECT_EQ(tree.tree().evictable(), 2);
  EXPECT_EQ(tree.tree().size(), 6);

  EXPECT_EQ(tree.Insert({1, 2, 5, 6, 7}).present, 4);
  tree.tree().Unlock(prefilled.node);
  EXPECT_EQ(tree.tree().evictable(), 7);

  // 3 4 are older than 7: blocks 2 and 3 of A, then the block of 7 (4 to 7 were B's first four).
  EXPECT_EQ(tree.Evict(3), (Blocks{2, 3, 12}));
  EXPECT_EQ(tree.tree().evictable(), 4);
  EXPECT_EQ(tree.Match({1, 2, 5, 6, 7, 8}).blocks, 4);
}

TEST(RadixTreeTest, EvictsWholeLeavesInTheOrderOfTheirLatestUse) {
  TokenTree tree;
  tree.Insert({1, 2});     // blocks 0 and 1
  tree.Insert({3, 4, 5});  // 2 to 4
  tree.Insert({6});        // 5
  EXPECT_EQ(tree.Match({1, 2, 9}).blocks, 2);
  EXPECT_EQ(tree.Evict(1), (Blocks{2, 3, 4}));
  EXPECT_EQ(tree.Evict(1), (Blocks{5}));
  EXPECT_EQ(tree.Evict(1), (Blocks{0, 1}));
  EXPECT_EQ(tree.Evict(1), Blocks{});
}

TEST(RadixTreeTest, ThePartBehindAPartialMatchCountsAsUsed) {
  TokenTree tree;
  tree.Insert({1, 2, 3});  // 0 to 2
  tree.Insert({7, 8});     // 3 and 4
  EXPECT_EQ(tree.Match({1, 9}).blocks, 1);
  EXPECT_EQ(tree.Evict(1), (Blocks{3, 4}));
  EXPECT_EQ(tree.Evict(1), (Blocks{1, 2}));
  EXPECT_EQ(tree.Evict(1), (Blocks{0}));
}

// The parent is the older of the two: it goes before what was used later.
TEST(RadixTreeTest, AParentWhoseLastChildIsEvictedIsNextByItsOwnTime) {
  TokenTree tree;
  tree.Insert({1});     // 0
  tree.Insert({1, 2});  // 2 holds token 2
  tree.Insert({3});     // 3
  EXPECT_EQ(tree.Evict(2), (Blocks{2, 0}));
  EXPECT_EQ(tree.tree().size(), 1);
}

TEST(RadixTreeTest, LockedPathsStayWithAllAboveThem) {
  TokenTree tree;
  const RadixTree::Insertion leaf = tree.Insert({1, 2, 3, 4});
  tree.tree().Lock(leaf.node);
  EXPECT_EQ(tree.Match({1, 2}).blocks, 2);  // splits a locked node
  EXPECT_EQ(tree.tree().evictable(), 0);
  EXPECT_EQ(tree.Evict(10), Blocks{});
  tree.tree().Unlock(leaf.node);
  EXPECT_EQ(tree.tree().evictable(), 4);
  EXPECT_EQ(tree.Evict(1), (Blocks{2, 3}));
}

TEST(RadixTreeTest, CopiesAnyPartOfAPath) {
  TokenTree tree;
  tree.Insert({1, 2, 3, 4});                                      // 0 to 3
  const RadixTree::Insertion end = tree.Insert({1, 2, 5, 6, 7});  // takes 6 to 8
  EXPECT_EQ(tree.Path(end.node, 0, 5), (Blocks{0, 1, 6, 7, 8}));
  EXPECT_EQ(tree.Path(end.node, 1, 3), (Blocks{1, 6, 7}));
  EXPECT_EQ(tree.Path(end.node, 4, 1), (Blocks{8}));
}

// Against a list of all sequences ever inserted: nothing is evicted, so a match is the longest
// prefix of any of them.
TEST(RadixTreeTest, FindsTheLongestPrefixAmongThousandsOfSequences) {
  TokenTree tree;
  Random random(7, "radix");
  std::vector<Tokens> inserted;
  for (int i = 0; i < 2000; ++i) {
    Tokens tokens(static_cast<std::size_t>(random.UniformInt(1, 12)));
    for (std::uint64_t& token : tokens) {
      token = static_cast<std::uint64_t>(random.UniformInt(0, 3));
    }
    std::size_t longest = 0;
    for (const Tokens& other : inserted) {
      const auto [mine, theirs] =
          std::mismatch(tokens.begin(), tokens.end(), other.begin(), other.end());
      longest = std::max(longest, static_cast<std::size_t>(mine - tokens.begin()));
      static_cast<void>(theirs);
    }
    if (i % 2 == 0) {
      ASSERT_EQ(tree.Match(tokens).blocks, static_cast<std::int32_t>(longest));
    } else {
      ASSERT_EQ(tree.Insert(tokens).present, static_cast<std::int32_t>(longest));
      inserted.push_back(tokens);
    }
  }
  const std::int32_t size = tree.tree().size();
  EXPECT_EQ(tree.Evict(size).size(), static_cast<std::size_t>(size));
  EXPECT_EQ(tree.tree().evictable(), 0);
  EXPECT_EQ(tree.Match({0}).blocks, 0);
}

}  // namespace
}  // namespace twin
