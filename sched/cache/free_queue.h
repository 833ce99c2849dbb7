// The queue of free blocks of a KV pool.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.h"

namespace twin {

// Block ids in a ring of twice as many places as the pool has blocks, at least. A block that leaves
// from the middle leaves a gap; gaps are skipped at the front, and closed when the ring is full.
//
// A linked list through the blocks would need no ring, but each block taken would wait for the one
// before it to come from memory. The ring tells which blocks are next, so that they can be fetched
// ahead.
//
// All functions take O(1) amortised time. Nothing is allocated after the first call of PushBack
// with a block that may leave.
class FreeQueue {
 public:
  // Holds the blocks [0, blocks), in this order; none may leave from the middle.
  explicit FreeQueue(std::size_t blocks);

  [[nodiscard]] std::int32_t size() const { return size_; }

  // REQUIRES: size() > 0.
  [[nodiscard]] BlockId TakeFront() {
    const BlockId id{At(front_++)};
    --size_;
    SkipGaps();
    return id;
  }
  // Takes as many as `taken` has places. REQUIRES: size() is not less.
  void TakeFront(std::span<BlockId> taken);
  // A block that is likely taken soon, but not next: to be fetched ahead. Any block of the pool if
  // there is none.
  [[nodiscard]] std::size_t Upcoming() const {
    return static_cast<std::size_t>(std::max(ring_[(front_ + kAhead) & mask_], 0));
  }

  // REQUIRES: the block is not in the queue. It may not leave from the middle.
  void PushFront(BlockId id);
  // Appends the block. `may_leave`: Remove may be called for it; false touches less memory.
  void PushBack(BlockId id, bool may_leave) { Appender(*this, 1).PushBack(id, may_leave); }

  // PushBack for several blocks, whose queue nothing else touches meanwhile.
  class Appender {
   public:
    // For at most so many blocks.
    Appender(FreeQueue& queue, std::size_t blocks_max) : queue_(queue) {
      if (queue.back_ - queue.front_ + blocks_max > queue.ring_.size()) queue.CloseGaps();
      ring_ = queue.ring_.data();
      mask_ = queue.mask_;
      back_ = queue.back_;
    }
    ~Appender() {
      queue_.size_ += static_cast<std::int32_t>(back_ - queue_.back_);
      queue_.back_ = back_;
    }
    Appender(const Appender&) = delete;
    Appender& operator=(const Appender&) = delete;

    void PushBack(BlockId id, bool may_leave) {
      if (may_leave) queue_.Note(id, back_);
      ring_[back_++ & mask_] = static_cast<std::int32_t>(Index(id));
    }

   private:
    // Copies of the queue's own, which a write to the ring might change as far as a compiler sees.
    FreeQueue& queue_;
    std::int32_t* ring_;
    std::uint32_t mask_;
    std::uint32_t back_;
  };

  // REQUIRES: the block is in the queue, and may leave.
  void Remove(BlockId id);

  // The blocks in their order. Cost: the whole ring. For audits.
  [[nodiscard]] std::vector<BlockId> Listed() const;

 private:
  static constexpr std::int32_t kGap = -1;
  // Blocks ahead of the front: by the time they are taken they have arrived.
  static constexpr std::uint32_t kAhead = 8;

  [[nodiscard]] std::int32_t& At(std::uint32_t place) { return ring_[place & mask_]; }
  void Put(std::uint32_t place, std::int32_t index) {
    At(place) = index;
    ++size_;
  }
  void Note(BlockId id, std::uint32_t place) {
    if (places_.empty()) [[unlikely]]
      places_.resize(blocks_);
    places_[Index(id)] = place & mask_;
  }
  void SkipGaps() {
    while (front_ != back_ && At(front_) == kGap) ++front_;
  }
  void CloseGaps();

  std::size_t blocks_;
  std::vector<std::int32_t> ring_;  // a power of two of places; outside front_ to back_, anything
  std::vector<std::uint32_t> places_;  // by block that may leave: its place in the ring
  std::uint32_t mask_ = 0;             // places are counted on, and taken modulo the ring's length
  std::uint32_t front_ = 0;            // no gap, unless the queue is empty
  std::uint32_t back_ = 0;             // one after the last block
  std::int32_t size_ = 0;
};

}  // namespace twin
