// The queue of free blocks of a KV pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.h"
#include "sched/cache/block.h"

namespace twin {

// Block ids in a ring of twice as many places as the pool has blocks, at least. A block that leaves
// from the middle leaves a gap; gaps are skipped at the front, and closed when the ring is full.
//
// A linked list through the blocks would need no ring, but each block taken would wait for the one
// before it to come from memory. The ring tells which blocks are next, so that they are fetched
// ahead.
//
// All functions take O(1) amortised time. Nothing is allocated after construction. The blocks
// passed to each call are those of the pool, by id.
class FreeQueue {
 public:
  // Holds all of `blocks`, the first one in front.
  explicit FreeQueue(std::span<Block> blocks);

  [[nodiscard]] std::int32_t size() const { return size_; }

  // REQUIRES: size() > 0.
  [[nodiscard]] BlockId TakeFront(std::span<Block> blocks) {
    const std::int32_t ahead = At(front_ + kFetchAhead);
    if (ahead != kGap) __builtin_prefetch(&blocks[static_cast<std::size_t>(ahead)], /*rw=*/1);
    const BlockId id{At(front_++)};
    --size_;
    SkipGaps();
    return id;
  }

  // REQUIRES: the block is not in the queue.
  void PushFront(std::span<Block> blocks, BlockId id);
  void PushBack(std::span<Block> blocks, BlockId id) {
    if (full()) CloseGaps(blocks);
    Put(blocks, back_++, static_cast<std::int32_t>(Index(id)));
  }

  // REQUIRES: the block is in the queue.
  void Remove(std::span<const Block> blocks, BlockId id);

  // The blocks in their order. Cost: the whole ring. For audits.
  [[nodiscard]] std::vector<BlockId> Listed() const;

 private:
  static constexpr std::int32_t kGap = -1;
  // Blocks ahead of the front that are fetched: by the time they are taken they have arrived.
  static constexpr std::uint32_t kFetchAhead = 8;

  [[nodiscard]] std::int32_t& At(std::uint32_t place) { return ring_[place & mask_]; }
  [[nodiscard]] bool full() const { return back_ - front_ > mask_; }
  void Put(std::span<Block> blocks, std::uint32_t place, std::int32_t index) {
    At(place) = index;
    blocks[static_cast<std::size_t>(index)].free_place = place & mask_;
    ++size_;
  }
  void SkipGaps() {
    while (front_ != back_ && At(front_) == kGap) ++front_;
  }
  void CloseGaps(std::span<Block> blocks);

  std::vector<std::int32_t> ring_;  // a power of two of places; outside front_ to back_, anything
  std::uint32_t mask_ = 0;          // places are counted on, and taken modulo the ring's length
  std::uint32_t front_ = 0;         // no gap, unless the queue is empty
  std::uint32_t back_ = 0;          // behind the last block
  std::int32_t size_ = 0;
};

}  // namespace twin
