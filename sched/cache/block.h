// One block of the KV cache, as the pool keeps account of it.
#pragma once

#include <cstdint>

#include "core/ids.h"

namespace twin {

// KvPool and BlockKeyIndex each write their own members. They are in one struct because a block
// taken from the free queue has its key examined, too.
struct Block {
  static constexpr std::int32_t kNil = -1;

  std::int32_t references = 0;   // sequences that hold it, and a prefix tree that keeps it
  std::int32_t previous = kNil;  // neighbours in the free queue
  std::int32_t next = kNil;
  std::int32_t key_next = kNil;  // the next block listed under the same key
  BlockKey key{};                // identifies its content, if `carries_key`
  bool carries_key = false;
  bool listed = false;  // in the index
  bool kept = false;    // by a prefix tree
};

}  // namespace twin
