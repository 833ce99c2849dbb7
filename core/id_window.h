// A map from dense, rising ids to values, where only ids of a recent window are alive.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/check.h"
#include "core/ids.h"

namespace twin {

// Maps live RequestIds to values in O(1) without hashing: a ring indexed by the low bits of the id.
//
// Ids are opened in rising order (gaps allowed) and closed in any order. Memory is proportional to
// the span from the oldest live id to the newest, not to the number of ids ever opened.
//
// Invariant: a slot is alive iff its stored id equals the id that maps to it.
// References stay valid until the next Open().
// Open() may return the value of a closed id, so the caller must assign every field. Closed slots
// keep their value until then so that the containers inside keep their capacity.
template <class T>
class IdWindow {
 public:
  IdWindow() { Resize(kInitialCapacity); }

  // REQUIRES: id is larger than every id opened before.
  T& Open(RequestId id) {
    const std::uint64_t index = Index(id);
    CHECK(index >= end_);
    if (live_ == 0) begin_ = index;
    while (index - begin_ >= slots_.size()) Grow();
    end_ = index + 1;
    ++live_;
    Slot& slot = slots_[index & mask_];
    slot.id = index;
    return slot.value;
  }

  // REQUIRES: contains(id).
  void Close(RequestId id) {
    Slot& slot = slots_[Index(id) & mask_];
    CHECK(slot.id == Index(id));
    slot.id = kDead;
    --live_;
    while (begin_ < end_ && slots_[begin_ & mask_].id != begin_) ++begin_;
  }

  [[nodiscard]] bool contains(RequestId id) const {
    return slots_[Index(id) & mask_].id == Index(id);
  }

  // nullptr if the id is not alive.
  [[nodiscard]] T* Find(RequestId id) {
    Slot& slot = slots_[Index(id) & mask_];
    return slot.id == Index(id) ? &slot.value : nullptr;
  }

  // REQUIRES: contains(id).
  T& operator[](RequestId id) {
    Slot& slot = slots_[Index(id) & mask_];
    CHECK(slot.id == Index(id));
    return slot.value;
  }
  const T& operator[](RequestId id) const {
    const Slot& slot = slots_[Index(id) & mask_];
    CHECK(slot.id == Index(id));
    return slot.value;
  }

  [[nodiscard]] std::size_t size() const { return live_; }
  [[nodiscard]] bool empty() const { return live_ == 0; }

  // Calls visit(id, value) for every live entry in rising order of id. Cost: linear in the span
  // from the oldest live id to the newest id.
  template <class Visit>
  void ForEach(Visit visit) const {
    for (std::uint64_t index = begin_; index < end_; ++index) {
      const Slot& slot = slots_[index & mask_];
      if (slot.id == index) visit(RequestId{static_cast<std::uint32_t>(index)}, slot.value);
    }
  }

 private:
  // If a value takes more than a cache line, its first 56 bytes share a line with the id.
  static constexpr std::size_t kLine = 64;
  static constexpr std::size_t kAlignment = sizeof(T) + sizeof(std::uint64_t) > kLine
                                                ? kLine
                                                : alignof(std::uint64_t);
  struct alignas(std::max(kAlignment, alignof(T))) Slot {
    std::uint64_t id = kDead;
    T value{};
  };
  static constexpr std::uint64_t kDead = ~std::uint64_t{0};
  static constexpr std::size_t kInitialCapacity = 64;

  void Resize(std::size_t capacity) {
    slots_.resize(capacity);
    mask_ = capacity - 1;
  }

  void Grow() {
    std::vector<Slot> old;
    old.swap(slots_);
    Resize(old.size() * 2);
    for (Slot& slot : old) {
      if (slot.id != kDead) slots_[slot.id & mask_] = std::move(slot);
    }
  }

  std::vector<Slot> slots_;
  std::uint64_t mask_ = 0;
  std::uint64_t begin_ = 0;  // no live id is smaller
  std::uint64_t end_ = 0;    // one past the largest id ever opened
  std::size_t live_ = 0;
};

}  // namespace twin
