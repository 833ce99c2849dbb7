// The prefix cache of a policy that keeps computed blocks in a radix tree.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.h"
#include "sched/cache/radix_tree.h"
#include "sched/kv_editor.h"
#include "sched/sequence.h"

namespace twin {

// A node that one sequence has locked: its leading `blocks` blocks belong to the tree.
struct TreeHold {
  RadixTree::Node node = RadixTree::Node::kRoot;
  std::int32_t blocks = 0;
};

// Joins a RadixTree to the pool: the tree keeps blocks (KvPool::Keep) beyond the sequences that
// computed them. Where it is disabled, nothing is ever found or kept.
// Invariant: between calls, a node of the tree is locked exactly if a sequence holds its blocks, so
// that evictable() blocks become free if they are evicted.
class RadixCache {
 public:
  RadixCache(const KvPoolConfig& kv, bool enabled)
      : block_size_(kv.block_size),
        keys_per_block_(kv.keys_per_block()),
        enabled_(enabled),
        tree_(enabled ? kv.blocks : 0) {}

  [[nodiscard]] bool enabled() const { return enabled_; }
  [[nodiscard]] std::int32_t evictable() const { return tree_.evictable(); }

  // The longest prefix of the sequence's first `tokens` tokens that is in the tree.
  TreeHold Match(const Sequence& sequence, std::int32_t tokens);
  void Lock(const TreeHold& hold) { tree_.Lock(hold.node); }
  void Unlock(const TreeHold& hold) { tree_.Unlock(hold.node); }
  // The blocks of a hold; valid until the next call.
  std::span<const BlockId> BlocksOf(const TreeHold& hold);

  // Enters the full blocks of the sequence's first `tokens` tokens into the tree. The sequence then
  // shares all of them, and gives up its own copies of blocks that the tree had. Moves `hold`.
  void Checkpoint(KvEditor& blocks, const Sequence& sequence, std::int32_t tokens, TreeHold& hold);
  // As Checkpoint, for a sequence that has finished: it keeps its own blocks, which the engine
  // releases next, and holds nothing in the tree any more.
  void Finish(KvEditor& blocks, const Sequence& sequence, std::int32_t tokens, TreeHold& hold);

  // Evicts what was used least recently until `free` blocks are free; false if there are fewer.
  bool MakeFree(KvEditor& blocks, std::int64_t free);

 private:
  // The keys of the full blocks of the sequence's first `tokens` tokens; valid until the next call.
  std::span<const BlockKey> Keys(const Sequence& sequence, std::int32_t tokens);
  RadixTree::Insertion Insert(KvEditor& blocks, const Sequence& sequence,
                              std::span<const BlockKey> keys);

  std::int32_t block_size_;
  std::int32_t keys_per_block_;
  bool enabled_;
  RadixTree tree_;
  std::vector<BlockId> scratch_;
  std::vector<BlockKey> keys_;  // of whole blocks, where a block has several
};

}  // namespace twin
