#include "core/prefix_keys.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

namespace twin {
namespace {

constexpr RequestId kA{0};
constexpr RequestId kB{1};
constexpr std::array<std::uint64_t, 3> kChunks{11, 12, 13};

TEST(NamedContentTest, ChunksThatEndWithinThePromptNameWhatTheyCover) {
  EXPECT_EQ(NamedContent::Of(kChunks, 4, 20, 5).tokens, 12);
}

TEST(NamedContentTest, WholeChunksGoOnThroughTheOutput) {
  EXPECT_EQ(NamedContent::Of(kChunks, 4, 7, 5).tokens, 12);
}

// Three chunks of 4 reach token 12; prompt and output have 11: the last chunk is cut by the prompt.
TEST(NamedContentTest, AChunkBeyondTheOutputIsCutAtThePrompt) {
  EXPECT_EQ(NamedContent::Of(kChunks, 4, 10, 1).tokens, 10);
}

TEST(NamedContentTest, NoChunksNameNothing) {
  EXPECT_EQ(NamedContent::Of({}, 0, 10, 10).tokens, 0);
}

TEST(NamedContentTest, CoversMoreTokensThanThirtyTwoBitsCount) {
  const std::vector<std::uint64_t> many(8, 1);
  EXPECT_EQ(NamedContent::Of(many, 1 << 30, 100, 100).tokens, 100);
}

// Five keys of 2 tokens hold two whole blocks of 4.
TEST(BlockKeysTest, ABlockHasTheKeyThatEndsWithIt) {
  const std::array<BlockKey, 5> keys{BlockKey{1}, BlockKey{2}, BlockKey{3}, BlockKey{4},
                                     BlockKey{5}};
  const BlockKeys blocks(keys, 2);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0], BlockKey{2});
  EXPECT_EQ(blocks[1], BlockKey{4});
  EXPECT_TRUE(BlockKeys(std::span(keys).first(1), 2).empty());
}

TEST(KeyOfBlockTest, EqualChunksGiveEqualKeysToDifferentRequests) {
  const NamedContent content = NamedContent::Of(kChunks, 4, 12, 4);
  for (std::int32_t block = 0; block < 3; ++block) {
    EXPECT_EQ(KeyOfBlock(content, kA, block, 4), KeyOfBlock(content, kB, block, 4));
  }
}

TEST(KeyOfBlockTest, BlocksBeyondTheNamedTokensAreTheRequestsOwn) {
  const NamedContent content = NamedContent::Of(kChunks, 4, 12, 4);
  EXPECT_NE(KeyOfBlock(content, kA, 3, 4), KeyOfBlock(content, kB, 3, 4));
  EXPECT_EQ(KeyOfBlock(content, kA, 3, 4), KeyOfBlock(content, kA, 3, 4));
}

// 12 named tokens, blocks of 8: block 0 ends at token 7, block 1 at token 15, which has no name.
TEST(KeyOfBlockTest, ABlockCountsAsNamedOnlyIfItsLastTokenIs) {
  const NamedContent content = NamedContent::Of(kChunks, 4, 20, 4);
  EXPECT_EQ(KeyOfBlock(content, kA, 0, 8), KeyOfBlock(content, kB, 0, 8));
  EXPECT_NE(KeyOfBlock(content, kA, 1, 8), KeyOfBlock(content, kB, 1, 8));
}

TEST(KeyOfBlockTest, BlocksInsideOneChunkHaveDifferentKeys) {
  const NamedContent content = NamedContent::Of(kChunks, 16, 48, 4);
  std::set<BlockKey> keys;
  for (std::int32_t block = 0; block < 12; ++block) keys.insert(KeyOfBlock(content, kA, block, 4));
  EXPECT_EQ(keys.size(), 12u);
}

// What came before differs, so the chunk has another name, and so has the block.
TEST(KeyOfBlockTest, AnotherChunkGivesAnotherKey) {
  const std::array<std::uint64_t, 3> others{21, 12, 13};
  const NamedContent content = NamedContent::Of(kChunks, 4, 12, 4);
  const NamedContent other = NamedContent::Of(others, 4, 12, 4);
  EXPECT_NE(KeyOfBlock(content, kA, 0, 4), KeyOfBlock(other, kA, 0, 4));
  EXPECT_EQ(KeyOfBlock(content, kA, 1, 4), KeyOfBlock(other, kA, 1, 4));
}

TEST(KeyOfBlockTest, OwnKeysOfManyRequestsDoNotMeet) {
  std::set<BlockKey> keys;
  for (std::uint32_t id = 0; id < 300; ++id) {
    for (std::int32_t block = 0; block < 100; ++block) {
      keys.insert(KeyOfBlock({}, RequestId{id}, block, 16));
    }
  }
  EXPECT_EQ(keys.size(), 300u * 100u);
}

}  // namespace
}  // namespace twin
