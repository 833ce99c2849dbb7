#include "sched/cache/block_key_index.h"

#include <algorithm>
#include <bit>

#include "core/check.h"

namespace twin {

std::size_t BlockKeyIndex::Probe(std::span<const Block> blocks, BlockKey key) const {
  const std::size_t mask = slots_.size() - 1;
  const std::uint32_t hash = Hash(key);
  std::size_t slot = Home(hash);
  for (; slots_[slot].first != Block::kNil; slot = (slot + 1) & mask) {
    if (slots_[slot].hash != hash) continue;
    if (blocks[static_cast<std::size_t>(slots_[slot].first)].key == key) break;
  }
  return slot;
}

BlockId BlockKeyIndex::Find(std::span<const Block> blocks, BlockKey key) const {
  if (slots_.empty()) return BlockId::kNone;
  return BlockId{slots_[Probe(blocks, key)].first};
}

void BlockKeyIndex::Add(std::span<Block> blocks, BlockId id) {
  if (slots_.empty()) {
    const std::size_t slots = std::bit_ceil(2 * blocks.size());
    slots_.resize(slots);
    shift_ = 32 - std::countr_zero(slots);
  }
  Block& block = blocks[Index(id)];
  CHECK(block.carries_key && !block.listed);
  block.listed = true;
  block.key_next = Block::kNil;
  Slot& slot = slots_[Probe(blocks, block.key)];
  slot.hash = Hash(block.key);
  std::int32_t* link = &slot.first;
  while (*link != Block::kNil) link = &blocks[static_cast<std::size_t>(*link)].key_next;
  *link = static_cast<std::int32_t>(Index(id));
}

void BlockKeyIndex::Remove(std::span<Block> blocks, BlockId id) {
  Block& block = blocks[Index(id)];
  CHECK(block.listed);
  const std::size_t slot = Probe(blocks, block.key);
  std::int32_t* link = &slots_[slot].first;
  while (*link != static_cast<std::int32_t>(Index(id))) {
    link = &blocks[static_cast<std::size_t>(*link)].key_next;
  }
  *link = block.key_next;
  block.listed = false;
  if (slots_[slot].first == Block::kNil) Vacate(slot);
}

// Moves later entries of the cluster back, so that no probe ends before it finds its key.
void BlockKeyIndex::Vacate(std::size_t slot) {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t next = (slot + 1) & mask; slots_[next].first != Block::kNil;
       next = (next + 1) & mask) {
    // It may move only if its home does not lie behind the hole.
    const std::size_t home = Home(slots_[next].hash);
    if (((next - home) & mask) < ((next - slot) & mask)) continue;
    slots_[slot] = slots_[next];
    slots_[next] = {};
    slot = next;
  }
}

}  // namespace twin
