// One block of the KV cache, as the pool keeps account of it.
#pragma once

#include <cstdint>

#include "core/ids.h"

namespace twin {

// KvPool, FreeQueue and BlockKeyIndex each write their own members. They are in one struct because
// a block taken from the free queue has its key examined, too.
struct Block {
  static constexpr std::int32_t kNil = -1;

  std::int32_t references = 0;   // sequences that hold it, and a prefix tree that keeps it
  std::uint32_t free_place = 0;  // in the ring of the free queue
  std::int32_t key_next = kNil;  // the next block listed under the same key
  bool carries_key = false;
  bool listed = false;  // in the index
  bool kept = false;    // by a prefix tree
  BlockKey key{};       // identifies its content, if `carries_key`
};

}  // namespace twin
