#include "sched/cache/block_key_index.h"

#include <algorithm>
#include <bit>

#include "core/check.h"

namespace twin {

void BlockKeyIndex::Allocate() {
  const std::size_t slots =
      std::bit_ceil(2 * static_cast<std::size_t>(std::max<std::int32_t>(blocks_, 1)));
  slots_.assign(slots, kNil);
  shift_ = 64 - std::countr_zero(slots);
  entries_.resize(static_cast<std::size_t>(blocks_));
}

std::size_t BlockKeyIndex::Probe(BlockKey key) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = Home(key);
  while (slots_[slot] != kNil && At(slots_[slot]).key != key) slot = (slot + 1) & mask;
  return slot;
}

BlockId BlockKeyIndex::Find(BlockKey key) const {
  if (slots_.empty()) return BlockId::kNone;
  const std::int32_t first = slots_[Probe(key)];
  return first == kNil ? BlockId::kNone : BlockId{first};
}

void BlockKeyIndex::Add(BlockKey key, BlockId block) {
  if (slots_.empty()) Allocate();
  const auto index = static_cast<std::int32_t>(Index(block));
  Entry& entry = At(index);
  CHECK(!entry.carries);
  entry = {key, kNil, true};
  std::int32_t* link = &slots_[Probe(key)];
  while (*link != kNil) link = &At(*link).next;
  *link = index;
}

void BlockKeyIndex::Remove(BlockId block) {
  const auto index = static_cast<std::int32_t>(Index(block));
  CHECK(carries(block));
  Entry& entry = At(index);
  const std::size_t slot = Probe(entry.key);
  std::int32_t* link = &slots_[slot];
  while (*link != index) link = &At(*link).next;
  *link = entry.next;
  entry.carries = false;
  if (slots_[slot] == kNil) Vacate(slot);
}

// Moves later entries of the cluster back, so that no probe ends before it finds its key.
void BlockKeyIndex::Vacate(std::size_t slot) {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t next = (slot + 1) & mask; slots_[next] != kNil; next = (next + 1) & mask) {
    const std::size_t home = Home(At(slots_[next]).key);
    // It may move only if its home does not lie behind the hole.
    if (((next - home) & mask) < ((next - slot) & mask)) continue;
    slots_[slot] = slots_[next];
    slots_[next] = kNil;
    slot = next;
  }
}

}  // namespace twin
