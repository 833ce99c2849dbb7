// The requests that wait, in the order in which a policy looks at them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/ids.h"
#include "core/ring_queue.h"

namespace twin {

enum class QueueOrder : std::uint8_t {
  kFcfs,      // new arrivals at the back, preempted requests at the front
  kPriority,  // by (priority, id), smaller first
};

// Indexable from the head. Equal priorities keep the order of arrival.
class WaitingQueue {
 public:
  explicit WaitingQueue(QueueOrder order) : order_(order) {}

  [[nodiscard]] bool empty() const { return queue_.empty(); }
  [[nodiscard]] std::size_t size() const { return queue_.size(); }
  [[nodiscard]] RequestId operator[](std::size_t i) const { return queue_[i].id; }
  [[nodiscard]] RequestId front() const { return queue_.front().id; }

  void PushArrival(RequestId id, std::int32_t priority) { Insert({id, priority}); }

  void PushPreempted(RequestId id, std::int32_t priority) {
    if (order_ == QueueOrder::kFcfs) {
      queue_.PushFront({id, priority});
    } else {
      Insert({id, priority});
    }
  }

  void PopFront() { queue_.PopFront(); }
  void EraseAt(std::size_t i) { queue_.EraseAt(i); }

  // False if it does not wait here.
  bool Erase(RequestId id) {
    for (std::size_t i = 0; i < queue_.size(); ++i) {
      if (queue_[i].id == id) {
        queue_.EraseAt(i);
        return true;
      }
    }
    return false;
  }

  // Puts the requests into the order of kPriority, whatever order they are kept in.
  void SortByPriority() {
    for (std::size_t i = 1; i < queue_.size(); ++i) SiftForward(i);
  }

 private:
  struct Entry {
    RequestId id{};
    std::int32_t priority = 0;

    friend bool operator<(const Entry& a, const Entry& b) {
      return a.priority != b.priority ? a.priority < b.priority : a.id < b.id;
    }
  };

  void Insert(Entry entry) {
    queue_.PushBack(entry);
    if (order_ == QueueOrder::kPriority) SiftForward(queue_.size() - 1);
  }

  void SiftForward(std::size_t i) {
    for (; i > 0 && queue_[i] < queue_[i - 1]; --i) std::swap(queue_[i], queue_[i - 1]);
  }

  QueueOrder order_;
  RingQueue<Entry> queue_;
};

}  // namespace twin
