#include "sched/policy/waiting_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/random.h"

namespace twin {
namespace {

std::vector<std::uint32_t> Order(WaitingQueue queue) {
  std::vector<std::uint32_t> order;
  while (!queue.empty()) order.push_back(Index(queue.PopFront()));
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

TEST(WaitingQueueTest, ErasesByIdKeepingTheOrder) {
  for (const QueueOrder order : {QueueOrder::kFcfs, QueueOrder::kPriority}) {
    WaitingQueue queue(order);
    for (std::uint32_t i = 0; i < 7; ++i) queue.PushArrival(RequestId{i}, 0);
    for (const std::uint32_t id : {2u, 0u, 1u, 5u}) queue.Erase(RequestId{id});
    EXPECT_EQ(queue.size(), 3u);
    EXPECT_EQ(Order(queue), (Ids{3, 4, 6}));
    for (const std::uint32_t id : {6u, 4u, 3u}) queue.Erase(RequestId{id});
    EXPECT_TRUE(queue.empty());
  }
}

TEST(WaitingQueueTest, SortsByPriorityOnDemandAndStably) {
  WaitingQueue queue(QueueOrder::kFcfs);
  queue.PushArrival(RequestId{1}, 2);
  queue.PushArrival(RequestId{2}, 0);
  queue.PushArrival(RequestId{3}, 2);
  queue.PushPreempted(RequestId{0}, 2);
  queue.SortByPriority();
  EXPECT_EQ(Order(queue), (Ids{2, 0, 1, 3}));
  queue.PushArrival(RequestId{4}, 1);
  queue.PushPreempted(RequestId{5}, 3);
  EXPECT_EQ(Order(queue), (Ids{5, 2, 0, 1, 3, 4}));
  queue.SortByPriority();
  EXPECT_EQ(Order(queue), (Ids{2, 4, 0, 1, 3, 5}));
}

TEST(WaitingQueueTest, KeepsItsOrderWhileItsMemoryWrapsAround) {
  WaitingQueue queue(QueueOrder::kFcfs);
  Ids expected;
  for (std::uint32_t i = 0; i < 100; ++i) {
    queue.PushArrival(RequestId{i}, 0);
    if (i % 3 == 2) queue.PopFront();
    if (i >= 33) expected.push_back(i);
  }
  EXPECT_EQ(Order(queue), expected);
}

// What the queue must do, in a plain list.
struct Model {
  QueueOrder order;
  std::vector<std::pair<std::int32_t, std::uint32_t>> list;

  void Push(std::uint32_t id, std::int32_t priority, bool preempted) {
    list.insert(preempted && order == QueueOrder::kFcfs ? list.begin() : list.end(),
                {priority, id});
    if (order == QueueOrder::kPriority) std::sort(list.begin(), list.end());
  }
  [[nodiscard]] Ids ids() const {
    Ids ids;
    for (const auto& [priority, id] : list) ids.push_back(id);
    return ids;
  }
};

TEST(WaitingQueueTest, BehavesLikeAPlainListWhateverIsDoneToIt) {
  for (const QueueOrder order : {QueueOrder::kFcfs, QueueOrder::kPriority}) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      Random random(seed, "waiting");
      WaitingQueue queue(order);
      Model model{order, {}};
      for (std::uint32_t id = 0; id < 200; ++id) {
        const auto priority = static_cast<std::int32_t>(random.UniformInt(0, 3));
        const bool preempted = random.UnitReal() < 0.3;
        model.Push(id, priority, preempted);
        preempted ? queue.PushPreempted(RequestId{id}, priority)
                  : queue.PushArrival(RequestId{id}, priority);
        if (random.UnitReal() < 0.4) {
          const auto at = random.UniformInt(0, static_cast<std::int64_t>(model.list.size()) - 1);
          queue.Erase(RequestId{model.list[static_cast<std::size_t>(at)].second});
          model.list.erase(model.list.begin() + at);
        }
        if (!model.list.empty() && random.UnitReal() < 0.2) {
          ASSERT_EQ(Index(queue.PopFront()), model.list.front().second);
          model.list.erase(model.list.begin());
        }
        if (order == QueueOrder::kFcfs && random.UnitReal() < 0.1) {
          queue.SortByPriority();
          std::sort(model.list.begin(), model.list.end());
        }
        ASSERT_EQ(queue.size(), model.list.size());
      }
      EXPECT_EQ(Order(queue), model.ids()) << "seed " << seed;
    }
  }
}

// Removing from a ring took time in proportion to its length: with 200,000 requests at once vLLM V1
// needed 6.7 s where Sarathi needed 0.08 s.
TEST(WaitingQueueTest, CancellingInAnyOrderMovesEachEntryAFewTimes) {
  constexpr std::int64_t kRequests = 100'000;
  for (const QueueOrder order : {QueueOrder::kFcfs, QueueOrder::kPriority}) {
    WaitingQueue queue(order);
    std::vector<std::uint32_t> ids(kRequests);
    for (std::uint32_t i = 0; i < kRequests; ++i) {
      queue.PushArrival(RequestId{i}, static_cast<std::int32_t>(i % 7));
      ids[i] = i;
    }
    Random random(1, "cancellations");
    for (std::size_t i = ids.size(); i > 1; --i) {
      std::swap(ids[i - 1],
                ids[static_cast<std::size_t>(random.UniformInt(0, static_cast<int>(i) - 1))]);
    }
    for (const std::uint32_t id : ids) queue.Erase(RequestId{id});
    EXPECT_TRUE(queue.empty());
    EXPECT_LE(queue.entries_moved(), 2 * kRequests);  // n + n/2 + n/4 + ...
  }
}

TEST(WaitingQueueTest, SortingAgainMovesNothingThatIsInItsPlace) {
  constexpr std::int64_t kRequests = 100'000;
  WaitingQueue queue(QueueOrder::kFcfs);
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    queue.PushArrival(RequestId{i}, static_cast<std::int32_t>((i * 7919) % 5));
  }
  queue.SortByPriority();
  EXPECT_EQ(queue.entries_moved(), kRequests);
  for (std::uint32_t i = 0; i < 1000; ++i) {
    queue.PushArrival(RequestId{static_cast<std::uint32_t>(kRequests) + i}, 4);  // the least
    queue.PushPreempted(RequestId{500'000 + i}, -1);                             // the most
    queue.SortByPriority();
  }
  // Each arrival itself, and each victim behind the earlier ones.
  EXPECT_LE(queue.entries_moved(), kRequests + 1000 + 1000 * 1001 / 2);
}

}  // namespace
}  // namespace twin
