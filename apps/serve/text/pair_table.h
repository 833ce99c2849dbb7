// The merges of a vocabulary: from two neighbouring tokens to the token they become.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "apps/serve/text/tokenizer.h"
#include "core/hash.h"

namespace twin::text {

// A hash table with linear probing, at most half full. Merging asks it once per pair of
// neighbours, so that one access to memory has to do.
class PairTable {
 public:
  struct Merge {
    std::uint32_t rank = kNoMerge;  // smaller merges first
    TokenId merged = -1;
  };
  static constexpr std::uint32_t kNoMerge = UINT32_MAX;

  // An empty table for up to `size` merges.
  explicit PairTable(std::size_t size = 0);

  // A later merge of the same pair replaces the earlier one. REQUIRES: ids >= 0, merge.rank is not
  // kNoMerge, and the table has room.
  void Insert(TokenId left, TokenId right, Merge merge);

  // rank is kNoMerge if the two do not merge.
  [[nodiscard]] Merge Find(TokenId left, TokenId right) const {
    const std::uint64_t key = KeyOf(left, right);
    for (std::size_t slot = SlotOf(key);; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return slots_[slot].merge;
      if (slots_[slot].key == kFree) return {};
    }
  }

 private:
  static constexpr std::uint64_t kFree = UINT64_MAX;
  struct Slot {
    std::uint64_t key = kFree;
    Merge merge;
  };

  static std::uint64_t KeyOf(TokenId left, TokenId right) {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) |
           static_cast<std::uint32_t>(right);
  }
  [[nodiscard]] std::size_t SlotOf(std::uint64_t key) const {
    return static_cast<std::size_t>(MixWords(key, 0)) & mask_;
  }

  std::vector<Slot> slots_;
  std::size_t mask_;
  std::size_t used_ = 0;
};

}  // namespace twin::text
