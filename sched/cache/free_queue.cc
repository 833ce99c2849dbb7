#include "sched/cache/free_queue.h"

#include <bit>

#include "core/check.h"

namespace twin {

FreeQueue::FreeQueue(std::span<Block> blocks)
    : ring_(std::bit_ceil(2 * blocks.size() + 1), kGap),
      mask_(static_cast<std::uint32_t>(ring_.size() - 1)) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    PushBack(blocks, BlockId{static_cast<std::int32_t>(i)});
  }
}

void FreeQueue::PushFront(std::span<Block> blocks, BlockId id) {
  if (full()) CloseGaps(blocks);
  Put(blocks, --front_, static_cast<std::int32_t>(Index(id)));
}

void FreeQueue::Remove(std::span<const Block> blocks, BlockId id) {
  const std::uint32_t place = blocks[Index(id)].free_place;
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

// At least half of the ring is gaps, which pays for the visit of the others.
void FreeQueue::CloseGaps(std::span<Block> blocks) {
  const std::uint32_t back = back_;
  back_ = front_;
  size_ = 0;
  for (std::uint32_t place = front_; place != back; ++place) {
    const std::int32_t index = At(place);
    if (index != kGap) Put(blocks, back_++, index);
  }
}

}  // namespace twin
