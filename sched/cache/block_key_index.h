// The index of the prefix cache: from keys to blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/ids.h"

namespace twin {

// A hash table over the blocks of one pool: linear probing, at most half full, deletion by shifting
// back; blocks of one key form a list in the order in which they were added. Find takes O(1)
// expected time, Add and Remove O(blocks of the key). The first Add allocates 32 to 48 bytes per
// block of the pool; nothing is allocated after it. Never iterated, so hash values affect no
// decision.
class BlockKeyIndex {
 public:
  // An empty index for the blocks [0, blocks).
  explicit BlockKeyIndex(std::size_t blocks) : blocks_(blocks) {}

  // Returns the block that was added first under the key; kNone if there is none.
  [[nodiscard]] BlockId Find(BlockKey key) const;

  // Lists the block under the key. REQUIRES: it is not listed.
  void Add(BlockId id, BlockKey key);

  // REQUIRES: the block is listed.
  void Remove(BlockId id);

 private:
  static constexpr std::int32_t kNil = -1;
  static constexpr std::int32_t kNotListed = -2;
  // A block, if it is listed.
  struct Entry {
    BlockKey key{};
    std::int32_t next = kNotListed;  // the next block under the same key
  };
  // Keeps the upper half of the key's hash, so that most other keys are told apart without reading
  // the entry.
  struct Slot {
    std::int32_t first = kNil;  // the list's first block
    std::uint32_t hash = 0;
  };

  [[nodiscard]] static std::uint32_t Hash(BlockKey key) {
    return static_cast<std::uint32_t>((static_cast<std::uint64_t>(key) * 0x9E3779B97F4A7C15ull) >>
                                      32);
  }
  [[nodiscard]] std::size_t Home(std::uint32_t hash) const { return hash >> shift_; }
  // The slot of the key's list, or the empty one where it would begin.
  [[nodiscard]] std::size_t Probe(BlockKey key) const;
  void Vacate(std::size_t slot);

  std::size_t blocks_;
  int shift_ = 31;  // 32 - log2(slots)
  std::vector<Slot> slots_;
  std::vector<Entry> entries_;  // by block
};

}  // namespace twin
