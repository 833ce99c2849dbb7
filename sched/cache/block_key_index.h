// Which blocks carry which key: the prefix cache's directory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/ids.h"

namespace twin {

// A hash table over a fixed set of blocks: linear probing, at most half full, deletion by shifting
// back; blocks of one key form a list in the order in which they were added. O(1) expected for each
// operation, O(blocks of the key) for Remove. Memory: 28 to 44 bytes a block, taken by the first
// Add; none after it. Never iterated, so the hash decides nothing.
class BlockKeyIndex {
 public:
  explicit BlockKeyIndex(std::int32_t blocks) : blocks_(blocks) {}

  // The block that was added first of those that carry the key; BlockId::kNone if none does.
  [[nodiscard]] BlockId Find(BlockKey key) const;

  // REQUIRES: the block carries no key.
  void Add(BlockKey key, BlockId block);

  // REQUIRES: the block carries a key.
  void Remove(BlockId block);

  [[nodiscard]] bool carries(BlockId block) const {
    return !entries_.empty() && entries_[Index(block)].carries;
  }

 private:
  struct Entry {
    BlockKey key{};
    std::int32_t next = kNil;  // block of the same key
    bool carries = false;
  };
  static constexpr std::int32_t kNil = -1;

  void Allocate();
  [[nodiscard]] std::size_t Home(BlockKey key) const {
    return static_cast<std::size_t>((static_cast<std::uint64_t>(key) * 0x9E3779B97F4A7C15ull) >>
                                    shift_);
  }
  // The slot of the key's list, or the empty one where it would begin.
  [[nodiscard]] std::size_t Probe(BlockKey key) const;
  void Vacate(std::size_t slot);
  [[nodiscard]] Entry& At(std::int32_t block) { return entries_[static_cast<std::size_t>(block)]; }
  [[nodiscard]] const Entry& At(std::int32_t block) const {
    return entries_[static_cast<std::size_t>(block)];
  }

  std::int32_t blocks_;
  int shift_ = 63;                   // 64 - log2(slots)
  std::vector<std::int32_t> slots_;  // the first block of a key's list, or kNil
  std::vector<Entry> entries_;       // by block
};

}  // namespace twin
