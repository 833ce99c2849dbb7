#include "sched/policy/waiting_queue.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace twin {
namespace {

std::vector<std::uint32_t> Order(const WaitingQueue& queue) {
  std::vector<std::uint32_t> order;
  for (std::size_t i = 0; i < queue.size(); ++i) order.push_back(Index(queue[i]));
  return order;
}

using Ids = std::vector<std::uint32_t>;

TEST(WaitingQueueTest, FcfsPutsArrivalsAtTheBackAndVictimsAtTheFront) {
  WaitingQueue queue(QueueOrder::kFcfs);
  queue.PushArrival(RequestId{3}, 9);
  queue.PushArrival(RequestId{4}, 0);
  queue.PushPreempted(RequestId{2}, 5);  // the latest victim of a step is told first
  queue.PushPreempted(RequestId{1}, 7);
  EXPECT_EQ(Order(queue), (Ids{1, 2, 3, 4}));
  EXPECT_EQ(Index(queue.front()), 1u);
}

TEST(WaitingQueueTest, PriorityOrdersByPriorityThenArrivalWhateverTheCause) {
  WaitingQueue queue(QueueOrder::kPriority);
  queue.PushArrival(RequestId{3}, 1);
  queue.PushArrival(RequestId{4}, 0);
  queue.PushArrival(RequestId{5}, 1);
  queue.PushPreempted(RequestId{1}, 1);
  queue.PushPreempted(RequestId{2}, -1);
  EXPECT_EQ(Order(queue), (Ids{2, 4, 1, 3, 5}));
}

TEST(WaitingQueueTest, ErasesByIdAndByPositionKeepingTheOrder) {
  WaitingQueue queue(QueueOrder::kFcfs);
  for (std::uint32_t i = 0; i < 5; ++i) queue.PushArrival(RequestId{i}, 0);
  EXPECT_TRUE(queue.Erase(RequestId{2}));
  EXPECT_FALSE(queue.Erase(RequestId{2}));
  queue.EraseAt(1);
  queue.PopFront();
  EXPECT_EQ(Order(queue), (Ids{3, 4}));
}

TEST(WaitingQueueTest, SortsByPriorityOnDemandAndStably) {
  WaitingQueue queue(QueueOrder::kFcfs);
  queue.PushArrival(RequestId{1}, 2);
  queue.PushArrival(RequestId{2}, 0);
  queue.PushArrival(RequestId{3}, 2);
  queue.PushPreempted(RequestId{0}, 2);
  queue.SortByPriority();
  EXPECT_EQ(Order(queue), (Ids{2, 0, 1, 3}));
}

TEST(WaitingQueueTest, KeepsItsOrderWhileItsMemoryWrapsAround) {
  WaitingQueue queue(QueueOrder::kFcfs);
  for (std::uint32_t i = 0; i < 100; ++i) {
    queue.PushArrival(RequestId{i}, 0);
    if (i % 3 == 2) queue.PopFront();
  }
  ASSERT_EQ(queue.size(), 67u);
  for (std::size_t i = 0; i < queue.size(); ++i) EXPECT_EQ(Index(queue[i]), 33 + i);
}

}  // namespace
}  // namespace twin
