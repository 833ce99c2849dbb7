#include "sim/world/event_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/random.h"

namespace twin::sim {
namespace {

constexpr TimePoint At(std::int64_t ns) { return TimePoint{Duration{ns}}; }

TEST(EventQueueTest, IsNeverDueWhenEmpty) {
  EventQueue<int> queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.next_time(), kTimeNever);
  queue.Push(At(3), 1);
  EXPECT_FALSE(queue.empty());
  EXPECT_EQ(queue.Pop(), 1);
  EXPECT_EQ(queue.next_time(), kTimeNever);
}

TEST(EventQueueTest, TellsTheEarliestFirst) {
  EventQueue<int> queue;
  for (const int ns : {30, 10, 20}) queue.Push(At(ns), ns);
  for (const int ns : {10, 20, 30}) {
    EXPECT_EQ(queue.next_time(), At(ns));
    EXPECT_EQ(queue.Pop(), ns);
  }
}

TEST(EventQueueTest, KeepsTheOrderOfInsertionAtEqualTimes) {
  EventQueue<int> queue;
  for (int i = 0; i < 100; ++i) queue.Push(At(i % 2), i);
  for (int i = 0; i < 100; i += 2) EXPECT_EQ(queue.Pop(), i);
  for (int i = 1; i < 100; i += 2) EXPECT_EQ(queue.Pop(), i);
}

TEST(EventQueueTest, HoldsWhatCanOnlyBeMoved) {
  EventQueue<std::unique_ptr<int>> queue;
  queue.Push(At(2), std::make_unique<int>(2));
  queue.Push(At(1), std::make_unique<int>(1));
  EXPECT_EQ(*queue.Pop(), 1);
  EXPECT_EQ(*queue.Pop(), 2);
}

TEST(EventQueueDeathTest, DoesNotPopWhatIsNotThere) {
  EventQueue<int> queue;
  EXPECT_DEATH(queue.Pop(), "empty");
}

// The model is a list, searched for the first of the earliest.
TEST(EventQueueTest, AgreesWithAListUnderRandomUse) {
  using Entry = std::pair<TimePoint, int>;
  Random random(7, "event queue");
  EventQueue<int> queue;
  std::vector<Entry> model;
  for (int step = 0; step < 20'000; ++step) {
    if (model.empty() || random.UniformInt(0, 9) < (step < 10'000 ? 6 : 4)) {
      const TimePoint time = At(random.UniformInt(0, 40));
      queue.Push(time, step);
      model.emplace_back(time, step);
      continue;
    }
    const auto earliest =
        std::min_element(model.begin(), model.end(),
                         [](const Entry& a, const Entry& b) { return a.first < b.first; });
    ASSERT_EQ(queue.next_time(), earliest->first);
    ASSERT_EQ(queue.Pop(), earliest->second);
    model.erase(earliest);
  }
  EXPECT_EQ(queue.empty(), model.empty());
}

}  // namespace
}  // namespace twin::sim
