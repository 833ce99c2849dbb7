#include "sched/cache/free_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "core/random.h"

namespace twin {
namespace {

std::vector<BlockId> Ids(const std::vector<std::int32_t>& numbers) {
  std::vector<BlockId> ids;
  for (const std::int32_t number : numbers) ids.push_back(BlockId{number});
  return ids;
}

class FreeQueueTest : public testing::Test {
 protected:
  std::vector<Block> blocks_ = std::vector<Block>(4);
  FreeQueue queue_{blocks_};
};

TEST_F(FreeQueueTest, BeginsWithAllBlocksInOrder) {
  EXPECT_EQ(queue_.Listed(), Ids({0, 1, 2, 3}));
  EXPECT_EQ(queue_.size(), 4);
}

TEST_F(FreeQueueTest, TakesFromTheFront) {
  EXPECT_EQ(queue_.TakeFront(blocks_), BlockId{0});
  EXPECT_EQ(queue_.TakeFront(blocks_), BlockId{1});
  EXPECT_EQ(queue_.Listed(), Ids({2, 3}));
}

TEST_F(FreeQueueTest, TakesBackAtBothEnds) {
  const BlockId first = queue_.TakeFront(blocks_);
  const BlockId second = queue_.TakeFront(blocks_);
  queue_.PushBack(blocks_, first);
  queue_.PushFront(blocks_, second);
  EXPECT_EQ(queue_.Listed(), Ids({1, 2, 3, 0}));
}

TEST_F(FreeQueueTest, ABlockLeavesFromTheMiddleOrAnEnd) {
  queue_.Remove(blocks_, BlockId{2});
  EXPECT_EQ(queue_.Listed(), Ids({0, 1, 3}));
  queue_.Remove(blocks_, BlockId{0});
  EXPECT_EQ(queue_.Listed(), Ids({1, 3}));
  queue_.Remove(blocks_, BlockId{3});
  EXPECT_EQ(queue_.Listed(), Ids({1}));
  EXPECT_EQ(queue_.TakeFront(blocks_), BlockId{1});
  EXPECT_EQ(queue_.size(), 0);
}

// 4 blocks have a ring of 16 places. Block 0 stays in front while the others go round behind it, so
// that the ring fills with gaps, and more than once.
TEST_F(FreeQueueTest, GapsDoNotFillTheRing) {
  for (int round = 0; round < 20; ++round) {
    for (std::int32_t id = 1; id < 4; ++id) {
      queue_.Remove(blocks_, BlockId{id});
      queue_.PushBack(blocks_, BlockId{id});
    }
    ASSERT_EQ(queue_.Listed(), Ids({0, 1, 2, 3}));
  }
}

TEST(EmptyFreeQueueTest, HasNoBlocks) {
  std::vector<Block> none;
  const FreeQueue queue(none);
  EXPECT_EQ(queue.size(), 0);
  EXPECT_TRUE(queue.Listed().empty());
}

TEST_F(FreeQueueTest, RefusesABlockThatIsNotThere) {
  const BlockId taken = queue_.TakeFront(blocks_);
  EXPECT_DEATH(queue_.Remove(blocks_, taken), "back_ - front_");
}

// The reference is a plain deque.
TEST(FreeQueueAgainstDequeTest, RandomCallsGiveTheSameQueue) {
  for (const std::size_t count : {1U, 2U, 3U, 7U, 8U, 33U}) {
    Random random(count, "calls");
    std::vector<Block> blocks(count);
    FreeQueue queue(blocks);
    std::deque<BlockId> expected;
    for (std::size_t i = 0; i < count; ++i)
      expected.push_back(BlockId{static_cast<std::int32_t>(i)});
    std::vector<BlockId> taken;
    const auto pick = [&](std::size_t size) {
      return static_cast<std::ptrdiff_t>(random.UniformInt(0, static_cast<std::int64_t>(size) - 1));
    };
    for (int call = 0; call < 5000; ++call) {
      const auto kind = random.UniformInt(0, 3);
      if (kind == 0 && !expected.empty()) {
        taken.push_back(queue.TakeFront(blocks));
        ASSERT_EQ(taken.back(), expected.front());
        expected.pop_front();
      } else if (kind == 1 && !expected.empty()) {
        const auto at = expected.begin() + pick(expected.size());
        taken.push_back(*at);
        queue.Remove(blocks, *at);
        expected.erase(at);
      } else if (kind >= 2 && !taken.empty()) {
        const auto at = taken.begin() + pick(taken.size());
        if (kind == 2) {
          queue.PushBack(blocks, *at);
          expected.push_back(*at);
        } else {
          queue.PushFront(blocks, *at);
          expected.push_front(*at);
        }
        taken.erase(at);
      }
      ASSERT_EQ(queue.size(), static_cast<std::int32_t>(expected.size()));
      ASSERT_TRUE(std::ranges::equal(queue.Listed(), expected)) << "after call " << call;
    }
  }
}

}  // namespace
}  // namespace twin
