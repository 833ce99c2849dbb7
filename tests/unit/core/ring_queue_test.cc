#include "core/ring_queue.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>

#include "core/random.h"

namespace twin {
namespace {

TEST(RingQueueTest, IsFirstInFirstOut) {
  RingQueue<int> queue;
  for (int i = 0; i < 40; ++i) queue.PushBack(i);
  EXPECT_EQ(queue.front(), 0);
  EXPECT_EQ(queue.back(), 39);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(queue.PopFront(), i);
  EXPECT_TRUE(queue.empty());
}

TEST(RingQueueTest, PushesInFront) {
  RingQueue<int> queue;
  queue.PushBack(2);
  queue.PushFront(1);
  EXPECT_EQ(queue[0], 1);
  EXPECT_EQ(queue[1], 2);
}

TEST(RingQueueTest, ErasesTheFirstEqualElementAndKeepsTheOrder) {
  RingQueue<int> queue;
  for (const int x : {4, 5, 6, 5}) queue.PushBack(x);
  EXPECT_TRUE(queue.Erase(5));
  EXPECT_FALSE(queue.Erase(9));
  ASSERT_EQ(queue.size(), 3u);
  EXPECT_EQ(queue[0], 4);
  EXPECT_EQ(queue[1], 6);
  EXPECT_EQ(queue[2], 5);
}

TEST(RingQueueTest, HoldsWhatCanOnlyBeMoved) {
  RingQueue<std::unique_ptr<int>> queue;
  for (int i = 0; i < 20; ++i) queue.PushBack(std::make_unique<int>(i));
  EXPECT_EQ(*queue.PopFront(), 0);
  EXPECT_EQ(*queue.PopBack(), 19);
}

// A std::deque is the model.
TEST(RingQueueTest, AgreesWithADequeUnderRandomUse) {
  Random random(5, "ring queue");
  RingQueue<std::int64_t> queue;
  std::deque<std::int64_t> model;
  for (int step = 0; step < 50'000; ++step) {
    const std::int64_t action = random.UniformInt(0, 6);
    if (action <= 1) {
      queue.PushBack(step);
      model.push_back(step);
    } else if (action == 2) {
      queue.PushFront(step);
      model.push_front(step);
    } else if (action == 3 && !model.empty()) {
      ASSERT_EQ(queue.PopFront(), model.front());
      model.pop_front();
    } else if (action == 4 && !model.empty()) {
      ASSERT_EQ(queue.PopBack(), model.back());
      model.pop_back();
    } else if (action == 5 && !model.empty()) {
      const std::int64_t i = random.UniformInt(0, static_cast<std::int64_t>(model.size()) - 1);
      queue.EraseAt(static_cast<std::size_t>(i));
      model.erase(model.begin() + i);
    } else if (step % 1000 == 0) {
      queue.Clear();
      model.clear();
    }
    ASSERT_EQ(queue.size(), model.size());
    for (std::size_t i = 0; i < model.size() && i < 8; ++i) ASSERT_EQ(queue[i], model[i]);
  }
}

struct Counted {
  static inline std::int64_t moves = 0;
  int value = 0;

  Counted() = default;
  explicit Counted(int v) : value(v) {}
  Counted(const Counted&) = default;
  Counted(Counted&&) = default;
  Counted& operator=(const Counted&) = default;
  Counted& operator=(Counted&& other) noexcept {
    value = other.value;
    ++moves;
    return *this;
  }
  ~Counted() = default;
  bool operator==(const Counted& other) const { return value == other.value; }
};

// Clients that came together give up in the order in which they came: each is at the front, or
// behind the few that are left there. Moving what lies behind would take 50 million moves.
TEST(RingQueueTest, ElementsThatLeaveNearTheFrontMoveNobodyBehindThem) {
  RingQueue<Counted> queue;
  for (int i = 0; i < 10'000; ++i) queue.PushBack(Counted(i));
  Counted::moves = 0;
  for (int i = 2; i < 10'000; ++i) EXPECT_TRUE(queue.Erase(Counted(i)));
  EXPECT_LE(Counted::moves, 2 * 10'000);
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(queue[1].value, 1);
}

TEST(RingQueueDeathTest, RefusesToPopFromNothing) {
  RingQueue<int> queue;
  EXPECT_DEATH(queue.PopFront(), "check failed: size_ > 0");
  EXPECT_DEATH(queue.PopBack(), "check failed: size_ > 0");
}

}  // namespace
}  // namespace twin
