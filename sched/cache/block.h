// One block of the KV cache, as the pool keeps account of it.
#pragma once

#include <cstdint>

namespace twin {

// KvPool and BlockKeyIndex each write their own members. Four blocks fill a cache line; their keys
// are in the index, because most steps of a block's life need none.
struct Block {
  static constexpr std::int32_t kNil = -1;

  std::int32_t references = 0;   // sequences that hold it, and a prefix tree that keeps it
  std::int32_t previous = kNil;  // neighbours in the free queue
  std::int32_t next = kNil;
  bool carries_key = false;  // that identifies its content
  bool listed = false;       // in the index, under its key
  bool kept = false;         // by a prefix tree
};

}  // namespace twin
