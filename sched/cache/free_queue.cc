#include "sched/cache/free_queue.h"

#include <bit>
#include <numeric>

#include "core/check.h"

namespace twin {

FreeQueue::FreeQueue(std::size_t blocks)
    : blocks_(blocks),
      ring_(std::bit_ceil(2 * blocks + 1), kGap),
      mask_(static_cast<std::uint32_t>(ring_.size() - 1)),
      back_(static_cast<std::uint32_t>(blocks)),
      size_(static_cast<std::int32_t>(blocks)) {
  std::iota(ring_.begin(), ring_.begin() + size_, 0);
}

void FreeQueue::PushFront(BlockId id) {
  if (back_ - front_ == ring_.size()) CloseGaps();
  Put(--front_, static_cast<std::int32_t>(Index(id)));
}

void FreeQueue::TakeFront(std::span<BlockId> taken) {
  std::uint32_t place = front_;
  for (BlockId& id : taken) {
    while (At(place) == kGap) ++place;
    id = BlockId{At(place++)};
  }
  front_ = place;
  size_ -= static_cast<std::int32_t>(taken.size());
  SkipGaps();
}

void FreeQueue::Remove(BlockId id) {
  CHECK(Index(id) < places_.size());
  const std::uint32_t place = places_[Index(id)];
  CHECK(((place - front_) & mask_) < back_ - front_);
  CHECK(At(place) == static_cast<std::int32_t>(Index(id)));
  At(place) = kGap;
  --size_;
  SkipGaps();
}

std::vector<BlockId> FreeQueue::Listed() const {
  std::vector<BlockId> listed;
  for (std::uint32_t place = front_; place != back_; ++place) {
    const std::int32_t index = ring_[place & mask_];
    if (index != kGap) listed.push_back(BlockId{index});
  }
  return listed;
}

// At least half of the ring is gaps, which pays for the visit of the blocks in between.
void FreeQueue::CloseGaps() {
  const std::uint32_t back = back_;
  back_ = front_;
  size_ = 0;
  for (std::uint32_t place = front_; place != back; ++place) {
    const std::int32_t index = At(place);
    if (index == kGap) continue;
    Note(BlockId{index}, back_);
    Put(back_++, index);
  }
}

}  // namespace twin
