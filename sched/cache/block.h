// A page of the KV cache as the pool sees it.
#pragma once

#include <cstdint>

#include "core/ids.h"

namespace twin {

// Written by KvPool and BlockKeyIndex, each its own part. What belongs to one block lies together:
// whoever takes it from the free queue also looks at its key.
struct Block {
  static constexpr std::int32_t kNil = -1;

  std::int32_t references = 0;   // sequences that hold it
  std::int32_t previous = kNil;  // neighbours in the free queue
  std::int32_t next = kNil;
  std::int32_t key_next = kNil;  // the next block listed under the same key
  BlockKey key{};                // what it holds, if `carries_key`
  bool carries_key = false;
  bool listed = false;  // in the index
};

}  // namespace twin
