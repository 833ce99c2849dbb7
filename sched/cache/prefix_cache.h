// The interface of a prefix cache that keeps computed blocks in a tree, as a policy sees it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.h"
#include "sched/cache/radix_tree.h"
#include "sched/kv_editor.h"
#include "sched/sequence.h"

namespace twin {

// The part of a hold that concerns the window pool; with one pool all of it is unused.
struct WindowHold {
  std::int32_t lock_begin = 0;  // blocks before the nodes whose window parts are locked
  bool locks = false;           // until then: none are locked
  bool covers_window = false;   // the locked ones have at least the tokens of a window
  std::int32_t freed = 0;       // tokens; the sequence's own blocks before them have no pages
  std::int32_t branch = 0;      // tokens; where the tree holds more than can be used. 0 = nowhere
  std::int32_t paged = 0;       // leading blocks of the sequence that had their pages
};

// A node that one sequence has locked: its leading `blocks` blocks belong to the tree.
struct TreeHold {
  RadixTree::Node node = RadixTree::Node::kRoot;
  std::int32_t blocks = 0;
  WindowHold window{};
};

// Joins a tree to the pool: the tree keeps blocks (KvPool::Keep) beyond the sequences that computed
// them. Where it is disabled, nothing is ever found or kept.
// Invariant: between calls, a node of the tree is locked exactly if a sequence holds its blocks, so
// that evictable() blocks become free if they are evicted.
class PrefixCache {
 public:
  PrefixCache(const KvPoolConfig& kv, bool enabled)
      : block_size_(kv.block_size), keys_per_block_(kv.keys_per_block()), enabled_(enabled) {}
  virtual ~PrefixCache() = default;
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  [[nodiscard]] bool enabled() const { return enabled_; }
  // Blocks of unlocked nodes.
  [[nodiscard]] virtual std::int32_t evictable() const = 0;

  // The longest prefix of the sequence's first `tokens` tokens that can be taken from the tree.
  virtual TreeHold Match(const Sequence& sequence, std::int32_t tokens) = 0;
  virtual void Lock(TreeHold& hold) = 0;
  virtual void Unlock(TreeHold& hold) = 0;
  // The blocks of a hold; valid until the next call.
  virtual std::span<const BlockId> BlocksOf(const TreeHold& hold) = 0;

  // Enters the full blocks of the sequence's first `tokens` tokens into the tree. The sequence then
  // shares all of them, and gives up its own copies of blocks that the tree had. Moves `hold`.
  virtual void Checkpoint(KvEditor& blocks, const Sequence& sequence, std::int32_t tokens,
                          TreeHold& hold) = 0;
  // As Checkpoint, for a sequence that has finished: it keeps its own blocks, which the engine
  // releases next, and holds nothing in the tree any more.
  virtual void Finish(KvEditor& blocks, const Sequence& sequence, std::int32_t tokens,
                      TreeHold& hold) = 0;
  // The sequence is about to lose its blocks without entering them: it holds nothing any more.
  virtual void Drop(const Sequence& sequence, TreeHold& hold) = 0;

  // Evicts what was used least recently until `free` blocks are free; false if there are fewer.
  virtual bool MakeFree(KvEditor& blocks, std::int64_t free) = 0;

 protected:
  // The keys of the full blocks of the sequence's first `tokens` tokens; valid until the next call.
  std::span<const BlockKey> Keys(const Sequence& sequence, std::int32_t tokens);
  [[nodiscard]] std::int32_t block_size() const { return block_size_; }

 private:
  std::int32_t block_size_;
  std::int32_t keys_per_block_;
  bool enabled_;
  std::vector<BlockKey> keys_;  // of whole blocks, where a block has several
};

}  // namespace twin
