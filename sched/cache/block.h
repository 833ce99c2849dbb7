// One block of the KV cache, as the pool keeps account of it.
#pragma once

namespace twin {

// A byte, because the blocks of a pool are taken and given back in an order of their own: of a
// thousand replicas each account would otherwise be fetched from memory. Keys lie with the index,
// and the pool counts the sequences that share a block.
struct Block {
  bool held : 1 = false;         // by at least one sequence
  bool shared : 1 = false;       // by several
  bool kept : 1 = false;         // by a prefix tree
  bool carries_key : 1 = false;  // its content is known by a key
  bool listed : 1 = false;       // in the index, under its key
};
static_assert(sizeof(Block) == 1);

}  // namespace twin
