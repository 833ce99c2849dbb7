// A queue of future events, ordered by time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/time.h"

namespace twin::sim {

// A binary heap. Entries of equal time come by rank, the smaller one first; entries of equal time
// and rank in the order of insertion. O(log n) to push and pop, no allocation once it has reached
// its largest size.
template <class Payload>
class EventQueue {
 public:
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  // kTimeNever if empty.
  [[nodiscard]] TimePoint next_time() const { return heap_.empty() ? kTimeNever : heap_[0].time; }

  // REQUIRES: not empty. Whether another entry has the time of the first.
  [[nodiscard]] bool HasTie() const {
    for (std::size_t i = 1; i < std::min<std::size_t>(heap_.size(), 3); ++i) {
      if (heap_[i].time == heap_[0].time) return true;
    }
    return false;
  }

  // REQUIRES: 0 <= rank < 2^24; at most 2^40 entries in all.
  void Push(TimePoint time, Payload payload, std::int32_t rank = 0) {
    const std::uint64_t order = (static_cast<std::uint64_t>(rank) << 40) | next_order_++;
    heap_.push_back({time, order, std::move(payload)});
    std::push_heap(heap_.begin(), heap_.end(), Later);
  }

  // REQUIRES: not empty.
  Payload Pop() {
    CHECK(!heap_.empty());
    // Nearly all queues of steps are as short as this.
    if (heap_.size() <= 2) {
      std::swap(heap_.front(), heap_.back());
    } else {
      std::pop_heap(heap_.begin(), heap_.end(), Later);
    }
    Payload payload = std::move(heap_.back().payload);
    heap_.pop_back();
    return payload;
  }

 private:
  struct Entry {
    TimePoint time;
    std::uint64_t order;
    Payload payload;
  };
  static bool Later(const Entry& a, const Entry& b) {
    return a.time != b.time ? a.time > b.time : a.order > b.order;
  }

  std::vector<Entry> heap_;
  std::uint64_t next_order_ = 0;
};

}  // namespace twin::sim
