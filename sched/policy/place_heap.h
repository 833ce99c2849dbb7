// Requests by a key that changes: the place of each one in an order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/ids.h"

namespace twin {

// A binary heap that is not told when a key changes or a request leaves: code that changes a key
// pushes the request again, and the former entry is dropped when it comes to the head, or by
// DropOutdated. The owner says which entries hold, by a function of (id, key). A call takes
// logarithmic time, and allocates while the heap grows.
class PlaceHeap {
 public:
  void Push(RequestId id, std::int64_t key) {
    heap_.push_back({key, id});
    std::push_heap(heap_.begin(), heap_.end(), Behind);
  }

  // The request with the smallest key; nothing if no entry holds. It stays in the heap.
  template <class Holds>
  [[nodiscard]] std::optional<RequestId> First(const Holds& holds) {
    while (!heap_.empty()) {
      const Entry& head = heap_.front();
      if (holds(head.id, head.key)) return head.id;
      std::pop_heap(heap_.begin(), heap_.end(), Behind);
      heap_.pop_back();
    }
    return std::nullopt;
  }

  // Drops the entries that do not hold, once the heap has twice as many entries as after the latest
  // such call: each Push pays for a constant number of them.
  template <class Holds>
  void DropOutdated(const Holds& holds) {
    constexpr std::size_t kFew = 64;
    if (heap_.size() < 2 * kept_ + kFew) return;
    std::erase_if(heap_, [&](const Entry& entry) { return !holds(entry.id, entry.key); });
    std::make_heap(heap_.begin(), heap_.end(), Behind);
    kept_ = heap_.size();
  }

  [[nodiscard]] std::size_t entries() const { return heap_.size(); }

 private:
  struct Entry {
    std::int64_t key = 0;
    RequestId id{};
  };
  // Makes the heap's head the entry with the smallest key.
  static bool Behind(const Entry& a, const Entry& b) {
    return a.key != b.key ? a.key > b.key : a.id > b.id;
  }

  std::vector<Entry> heap_;
  std::size_t kept_ = 0;
};

}  // namespace twin
