// One block of the KV cache, as the pool keeps account of it.
#pragma once

#include <cstdint>

namespace twin {

// Small, because the blocks of a pool are taken and given back in an order of their own: of a
// thousand replicas each one would otherwise be fetched from memory. Keys lie with the index.
struct Block {
  std::uint32_t references : 29 = 0;  // sequences that hold it, and a prefix tree that keeps it
  bool carries_key : 1 = false;       // its content is known by a key
  bool listed : 1 = false;            // in the index, under its key
  bool kept : 1 = false;              // by a prefix tree
};
static_assert(sizeof(Block) == 4);

}  // namespace twin
