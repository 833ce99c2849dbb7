#include "apps/serve/text/pair_table.h"

#include <algorithm>
#include <bit>

#include "core/check.h"

namespace twin::text {

PairTable::PairTable(std::size_t size)
    : slots_(std::bit_ceil(std::max<std::size_t>(2 * size, 2))), mask_(slots_.size() - 1) {}

void PairTable::Insert(TokenId left, TokenId right, Merge merge) {
  CHECK(left >= 0 && right >= 0 && merge.rank != kNoMerge);
  const std::uint64_t key = KeyOf(left, right);
  std::size_t slot = SlotOf(key);
  while (slots_[slot].key != key && slots_[slot].key != kFree) slot = (slot + 1) & mask_;
  if (slots_[slot].key == kFree) {
    CHECK(2 * ++used_ <= slots_.size());
    slots_[slot].key = key;
  }
  slots_[slot].merge = merge;
}

}  // namespace twin::text
