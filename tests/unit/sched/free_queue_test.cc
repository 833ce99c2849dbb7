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
  FreeQueueTest() {
    for (int i = 0; i < 4; ++i) queue_.PushBack(queue_.TakeFront(), /*may_leave=*/true);
  }
  FreeQueue queue_{4};
};

TEST_F(FreeQueueTest, BeginsWithAllBlocksInOrder) {
  EXPECT_EQ(queue_.Listed(), Ids({0, 1, 2, 3}));
  EXPECT_EQ(queue_.size(), 4);
}

TEST_F(FreeQueueTest, TakesFromTheFront) {
  EXPECT_EQ(queue_.TakeFront(), BlockId{0});
  EXPECT_EQ(queue_.TakeFront(), BlockId{1});
  EXPECT_EQ(queue_.Listed(), Ids({2, 3}));
}

TEST_F(FreeQueueTest, TakesBackAtBothEnds) {
  const BlockId first = queue_.TakeFront();
  const BlockId second = queue_.TakeFront();
  queue_.PushBack(first, true);
  queue_.PushFront(second);
  EXPECT_EQ(queue_.Listed(), Ids({1, 2, 3, 0}));
}

TEST_F(FreeQueueTest, ABlockLeavesFromTheMiddleOrAnEnd) {
  queue_.Remove(BlockId{2});
  EXPECT_EQ(queue_.Listed(), Ids({0, 1, 3}));
  queue_.Remove(BlockId{0});
  EXPECT_EQ(queue_.Listed(), Ids({1, 3}));
  queue_.Remove(BlockId{3});
  EXPECT_EQ(queue_.Listed(), Ids({1}));
  EXPECT_EQ(queue_.TakeFront(), BlockId{1});
  EXPECT_EQ(queue_.size(), 0);
}

// 4 blocks have a ring of 16 places. Block 0 stays in front while the others go round behind it, so
// that the ring fills with gaps, and more than once.
TEST_F(FreeQueueTest, GapsDoNotFillTheRing) {
  for (int round = 0; round < 20; ++round) {
    for (std::int32_t id = 1; id < 4; ++id) {
      queue_.Remove(BlockId{id});
      queue_.PushBack(BlockId{id}, true);
    }
    ASSERT_EQ(queue_.Listed(), Ids({0, 1, 2, 3}));
  }
}

TEST(EmptyFreeQueueTest, HasNoBlocks) {
  const FreeQueue queue(0);
  EXPECT_EQ(queue.size(), 0);
  EXPECT_TRUE(queue.Listed().empty());
}

TEST_F(FreeQueueTest, RefusesABlockThatIsNotThere) {
  const BlockId taken = queue_.TakeFront();
  EXPECT_DEATH(queue_.Remove(taken), "back_ - front_");
}

TEST(FreeQueueDeathTest, RefusesToRemoveABlockThatMayNotLeave) {
  FreeQueue queue(2);
  EXPECT_DEATH(queue.Remove(BlockId{1}), "places_");
}

// The reference is a plain deque.
TEST(FreeQueueAgainstDequeTest, RandomCallsGiveTheSameQueue) {
  for (const std::size_t count : {1U, 2U, 3U, 7U, 8U, 33U}) {
    Random random(count, "calls");
    FreeQueue queue(count);
    std::deque<BlockId> expected;
    for (std::size_t i = 0; i < count; ++i)
      expected.push_back(BlockId{static_cast<std::int32_t>(i)});
    std::vector<BlockId> taken;
    std::vector<bool> may_leave(count, false);
    const auto pick = [&](std::size_t size) {
      return static_cast<std::ptrdiff_t>(random.UniformInt(0, static_cast<std::int64_t>(size) - 1));
    };
    for (int call = 0; call < 5000; ++call) {
      const auto kind = random.UniformInt(0, 3);
      if (kind == 0 && !expected.empty()) {
        std::vector<BlockId> front(1 + static_cast<std::size_t>(pick(expected.size())));
        if (front.size() == 1) {
          front[0] = queue.TakeFront();
        } else {
          queue.TakeFront(front);
        }
        for (const BlockId id : front) {
          ASSERT_EQ(id, expected.front());
          expected.pop_front();
          taken.push_back(id);
        }
      } else if (kind == 1 && !expected.empty()) {
        const auto at = expected.begin() + pick(expected.size());
        if (!may_leave[Index(*at)]) continue;
        taken.push_back(*at);
        queue.Remove(*at);
        expected.erase(at);
      } else if (kind >= 2 && !taken.empty()) {
        const auto at = taken.begin() + pick(taken.size());
        may_leave[Index(*at)] = kind == 2 && random.UniformInt(0, 3) > 0;
        if (kind == 2) {
          queue.PushBack(*at, may_leave[Index(*at)]);
          expected.push_back(*at);
        } else {
          queue.PushFront(*at);
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
