// The index of the prefix cache: from keys to blocks.
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
// expected time, Add and Remove O(blocks of the key). The first Add allocates 16 to 32 bytes per
// block of the pool; nothing is allocated after it. Never iterated, so hash values affect no
// decision. The blocks passed to each call are those of the pool, by id.
class BlockKeyIndex {
 public:
  // Returns the block that was added first under the key; kNone if there is none.
  [[nodiscard]] BlockId Find(std::span<const Block> blocks, BlockKey key) const;

  // Adds the block under the key that it carries. REQUIRES: it carries one and is not listed.
  void Add(std::span<Block> blocks, BlockId id);

  // REQUIRES: the block is listed.
  void Remove(std::span<Block> blocks, BlockId id);

 private:
  // Keeps the upper half of the key's hash, so that most other keys are told apart without reading
  // the block.
  struct Slot {
    std::int32_t first = Block::kNil;  // the list's first block
    std::uint32_t hash = 0;
  };

  [[nodiscard]] static std::uint32_t Hash(BlockKey key) {
    return static_cast<std::uint32_t>((static_cast<std::uint64_t>(key) * 0x9E3779B97F4A7C15ull) >>
                                      32);
  }
  [[nodiscard]] std::size_t Home(std::uint32_t hash) const { return hash >> shift_; }
  // The slot of the key's list, or the empty one where it would begin.
  [[nodiscard]] std::size_t Probe(std::span<const Block> blocks, BlockKey key) const;
  void Vacate(std::size_t slot);

  int shift_ = 31;  // 32 - log2(slots)
  std::vector<Slot> slots_;
};

}  // namespace twin
