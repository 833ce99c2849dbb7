// The index of the prefix cache: the keys of blocks, and from keys to blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.h"
#include "sched/cache/block.h"

namespace twin {

// A hash table over the blocks of one pool: linear probing, at most half full, deletion by shifting
// back; blocks of one key form a list in the order in which they were added. Find takes O(1)
// expected time, Add and Remove O(blocks of the key). The first SetKey allocates 16 bytes and the
// first Add 16 to 32 bytes per block of the pool; nothing is allocated after them. Never iterated,
// so hash values affect no decision. The blocks passed to each call are those of the pool, by id.
class BlockKeyIndex {
 public:
  // Returns the block that was added first under the key; kNone if there is none.
  [[nodiscard]] BlockId Find(BlockKey key) const;

  // Gives the block a key. REQUIRES: it carries none.
  void SetKey(std::span<Block> blocks, BlockId id, BlockKey key);

  // Adds the block under the key that it carries. REQUIRES: it carries one and is not listed.
  void Add(std::span<Block> blocks, BlockId id);

  // REQUIRES: the block is listed.
  void Remove(std::span<Block> blocks, BlockId id);

 private:
  struct Keyed {
    BlockKey key{};
    std::int32_t next = Block::kNil;  // the next block listed under the same key
  };
  // Keeps the upper half of the key's hash, so that most other keys are told apart without reading
  // the block's.
  struct Slot {
    std::int32_t first = Block::kNil;  // the list's first block
    std::uint32_t hash = 0;
  };

  [[nodiscard]] static std::uint32_t Hash(BlockKey key) {
    return static_cast<std::uint32_t>((static_cast<std::uint64_t>(key) * 0x9E3779B97F4A7C15ull) >>
                                      32);
  }
  [[nodiscard]] std::int32_t& NextOf(std::int32_t block) {
    return keyed_[static_cast<std::size_t>(block)].next;
  }
  [[nodiscard]] std::size_t Home(std::uint32_t hash) const { return hash >> shift_; }
  // The slot of the key's list, or the empty one where it would begin.
  [[nodiscard]] std::size_t Probe(BlockKey key) const;
  void Vacate(std::size_t slot);

  int shift_ = 31;  // 32 - log2(slots)
  std::vector<Slot> slots_;
  std::vector<Keyed> keyed_;  // by block
};

}  // namespace twin
