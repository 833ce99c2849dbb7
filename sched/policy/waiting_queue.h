// The waiting requests, in the order in which a policy looks at them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "core/ids.h"
#include "core/ring_queue.h"

namespace twin {

enum class QueueOrder : std::uint8_t {
  kFcfs,      // new arrivals at the back, preempted requests at the front
  kPriority,  // by (priority, id), smaller first; any number can stand for the priority
};

// A deque (kFcfs) or a binary heap (kPriority).
//
// Hundreds of thousands of requests may wait, so no call shifts the queue: kFcfs takes constant
// time, kPriority logarithmic time. A request that is removed from the middle is only noted as
// removed, and skipped when it reaches the head; once half of the entries are such, all of them are
// dropped at once. Policies therefore cannot index the queue: to look beyond the head, take the
// head out and put it back with PushPreempted, the last one first.
// Allocates only while it grows, and for removals from the middle.
class WaitingQueue {
 public:
  explicit WaitingQueue(QueueOrder order) : order_(order) {}

  [[nodiscard]] bool empty() const { return entries() == 0; }
  [[nodiscard]] std::size_t size() const { return entries() - removed_.size(); }
  // REQUIRES: not empty.
  [[nodiscard]] RequestId front() const {
    return order_ == QueueOrder::kFcfs ? queue_.front().id : heap_.front().id;
  }

  // The priority with which the front was pushed. REQUIRES: not empty.
  [[nodiscard]] std::int64_t front_priority() const {
    return order_ == QueueOrder::kFcfs ? queue_.front().priority : heap_.front().priority;
  }

  void PushArrival(RequestId id, std::int64_t priority) {
    if (order_ == QueueOrder::kFcfs) {
      queue_.PushBack({id, priority});
    } else {
      PushHeap({id, priority});
    }
  }

  void PushPreempted(RequestId id, std::int64_t priority) {
    if (order_ == QueueOrder::kFcfs) {
      queue_.PushFront({id, priority});
      ++ahead_;
    } else {
      PushHeap({id, priority});
    }
  }

  // REQUIRES: not empty.
  RequestId PopFront() {
    const RequestId id = TakeHead();
    if (!removed_.empty()) DropRemovedHead();
    return id;
  }

  // REQUIRES: the request waits here.
  void Erase(RequestId id);

  // Puts the requests of a kFcfs queue into the order of kPriority. Cost: sorting what was pushed
  // since the latest call, and moving the entries that it overtakes.
  void SortByPriority();

  // How many entries Erase and SortByPriority have moved so far: their cost, for tests.
  [[nodiscard]] std::int64_t entries_moved() const { return entries_moved_; }

 private:
  struct Entry {
    RequestId id{};
    std::int64_t priority = 0;

    friend bool operator<(const Entry& a, const Entry& b) {
      return a.priority != b.priority ? a.priority < b.priority : a.id < b.id;
    }
  };

  // Removed ones included.
  [[nodiscard]] std::size_t entries() const {
    return order_ == QueueOrder::kFcfs ? queue_.size() : heap_.size();
  }
  RequestId TakeHead();
  void PushHeap(Entry entry);
  void DropRemovedHead();
  void DropRemoved();
  void MergeAtFront();
  void MergeAtBack();

  QueueOrder order_;
  RingQueue<Entry> queue_;       // kFcfs
  std::vector<Entry> heap_;      // kPriority
  std::set<RequestId> removed_;  // entries to skip; never the head
  // Leading entries of queue_: `ahead_` pushed to the front since the latest SortByPriority, and
  // after them `sorted_` that it sorted.
  std::size_t ahead_ = 0;
  std::size_t sorted_ = 0;
  std::vector<Entry> unsorted_;  // of the present SortByPriority
  std::int64_t entries_moved_ = 0;
};

}  // namespace twin
