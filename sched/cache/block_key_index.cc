#include "sched/cache/block_key_index.h"

#include <algorithm>
#include <bit>

#include "core/check.h"

namespace twin {

std::size_t BlockKeyIndex::Probe(BlockKey key) const {
  const std::size_t mask = slots_.size() - 1;
  const std::uint32_t hash = Hash(key);
  std::size_t slot = Home(hash);
  for (; slots_[slot].first != kNil; slot = (slot + 1) & mask) {
    if (slots_[slot].hash != hash) continue;
    if (entries_[static_cast<std::size_t>(slots_[slot].first)].key == key) break;
  }
  return slot;
}

BlockId BlockKeyIndex::Find(BlockKey key) const {
  if (slots_.empty()) return BlockId::kNone;
  return BlockId{slots_[Probe(key)].first};
}

void BlockKeyIndex::Add(BlockId id, BlockKey key) {
  if (slots_.empty()) {
    const std::size_t slots = std::bit_ceil(2 * blocks_);
    slots_.resize(slots);
    shift_ = 32 - std::countr_zero(slots);
    entries_.resize(blocks_);
  }
  Entry& entry = entries_[Index(id)];
  CHECK(entry.next == kNotListed);
  entry = {.key = key, .next = kNil};
  Slot& slot = slots_[Probe(key)];
  slot.hash = Hash(key);
  std::int32_t* link = &slot.first;
  while (*link != kNil) link = &entries_[static_cast<std::size_t>(*link)].next;
  *link = static_cast<std::int32_t>(Index(id));
}

void BlockKeyIndex::Remove(BlockId id) {
  Entry& entry = entries_[Index(id)];
  CHECK(entry.next != kNotListed);
  const std::size_t slot = Probe(entry.key);
  std::int32_t* link = &slots_[slot].first;
  while (*link != static_cast<std::int32_t>(Index(id))) {
    link = &entries_[static_cast<std::size_t>(*link)].next;
  }
  *link = entry.next;
  entry.next = kNotListed;
  if (slots_[slot].first == kNil) Vacate(slot);
}

// Moves later entries of the cluster back, so that no probe ends before it finds its key.
void BlockKeyIndex::Vacate(std::size_t slot) {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t next = (slot + 1) & mask; slots_[next].first != kNil; next = (next + 1) & mask) {
    // It may move only if its home does not lie after the hole.
    const std::size_t home = Home(slots_[next].hash);
    if (((next - home) & mask) < ((next - slot) & mask)) continue;
    slots_[slot] = slots_[next];
    slots_[next] = {};
    slot = next;
  }
}

}  // namespace twin
