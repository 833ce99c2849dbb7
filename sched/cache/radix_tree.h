// A radix tree of cached KV blocks: which prefixes are in the cache, and which was used least
// recently.
//
// A node is a run of blocks without a branch in it; a path from the root is a prefix. Keys of
// blocks name their content and all content before it (BlockKey), so a key occurs once in the tree,
// and two runs that agree in a block agree in all before it. Each call that visits nodes renews
// their time of use; the nodes of a path count as used from the root to the end, so that of one
// path the end is the most recent.
//
// Source: SGLang 0.5.23, decisions observed (Zheng et al., NeurIPS'24: RadixAttention).
//
// Easy to get wrong:
// - A match that ends inside a node splits it, also when nothing is inserted.
// - The part after such a split was used, too: it becomes as recent as the match.
// - Only unlocked leaves are evicted, whole; a parent whose last child goes becomes a leaf and is
//   next if it has not been used since.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.h"

namespace twin {

// Knows block ids and keys, and no pool or sequence. Memory: 16 bytes per block of the pool, once
// the first block is inserted, and 64 per node. Match and Insert take time linear in the nodes of
// the path and the blocks of a node that they split or add; a node that agrees as a whole takes one
// comparison. Allocates while the number of nodes grows.
class RadixTree {
 public:
  enum class Node : std::int32_t { kRoot = 0 };

  // `blocks`: the ids are 0 to blocks - 1.
  explicit RadixTree(std::int32_t blocks) : blocks_(static_cast<std::size_t>(blocks)) {}
  virtual ~RadixTree() = default;
  RadixTree(const RadixTree&) = delete;
  RadixTree& operator=(const RadixTree&) = delete;

  struct Hit {
    Node node = Node::kRoot;  // where it ends
    std::int32_t blocks = 0;
  };
  // Finds the longest prefix of `keys` in the tree. Splits a node if the prefix ends inside.
  Hit Match(std::span<const BlockKey> keys);

  struct Insertion {
    Node node = Node::kRoot;   // where the keys end
    std::int32_t present = 0;  // leading blocks that the tree had; it takes the blocks after them
  };
  // Enters `keys`, the i-th of which names the content of blocks[i].
  // REQUIRES: equal sizes; the blocks that it takes are not in the tree.
  Insertion Insert(std::span<const BlockKey> keys, std::span<const BlockId> blocks);

  // A locked node is not evicted; locks of a node lock all nodes above it.
  void Lock(Node node) { Count(node, 1); }
  void Unlock(Node node) { Count(node, -1); }

  // Evicts unlocked leaves, the least recently used first, until `blocks` blocks or all that can go
  // are evicted; appends them to `evicted`.
  void Evict(std::int32_t blocks, std::vector<BlockId>& evicted);

  // Copies the blocks at positions [first, first + out.size()) of the prefix that ends with `node`.
  void CopyPath(Node node, std::int32_t first, std::span<BlockId> out) const;

  [[nodiscard]] std::int32_t size() const { return size_; }            // blocks
  [[nodiscard]] std::int32_t evictable() const { return evictable_; }  // blocks in unlocked nodes

 protected:
  static constexpr std::int32_t kNil = -1;

  struct Slot {  // of a block
    BlockKey key{};
    std::int32_t next = kNil;  // the next block of its node, unless it is the last
  };
  struct Run {  // a node
    std::int32_t first = kNil;
    std::int32_t last = kNil;
    std::int32_t length = 0;  // blocks
    std::int32_t end = 0;     // blocks from the root to its end
    std::int32_t parent = kNil;
    std::int32_t children = 0;
    std::int32_t locks = 0;
    std::int32_t older = kNil;  // neighbours in the order of use
    std::int32_t newer = kNil;
    std::int64_t used = 0;
  };
  // The path of the leading `keys`; ends with the last node that they cover.
  struct Walked {
    std::int32_t node = 0;
    std::int32_t blocks = 0;
  };

  [[nodiscard]] Run& At(std::int32_t node) { return runs_[static_cast<std::size_t>(node)]; }
  [[nodiscard]] const Run& At(std::int32_t node) const {
    return runs_[static_cast<std::size_t>(node)];
  }
  // Splits a node if the path ends inside. UsePath() must follow.
  Walked Walk(std::span<const BlockKey> keys);
  // A new leaf below `parent`, which ends `end` blocks from the root; the most recently used node.
  std::int32_t Append(std::int32_t parent, std::int32_t end, std::span<const BlockKey> keys,
                      std::span<const BlockId> blocks);
  std::int32_t Split(std::int32_t node, std::int32_t blocks);
  void Remove(std::int32_t node);
  // Appends the blocks of the node.
  void AppendBlocks(std::int32_t node, std::vector<BlockId>& blocks) const;
  // Puts `blocks`, of the same content, in the place of the node's. REQUIRES: as many.
  void ReplaceBlocks(std::int32_t node, std::span<const BlockId> blocks);
  void UsePath(std::int32_t node);
  // For a subclass with data of its own for each node: `upper` has just been split off `lower`; the
  // node is about to be removed.
  virtual void OnSplit(std::int32_t /*upper*/, std::int32_t /*lower*/) {}
  virtual void OnRemove(std::int32_t /*node*/) {}
  [[nodiscard]] std::int32_t oldest() const { return oldest_; }

 private:
  [[nodiscard]] Slot& SlotOf(std::int32_t block) { return slots_[static_cast<std::size_t>(block)]; }
  [[nodiscard]] const Slot& SlotOf(std::int32_t block) const {
    return slots_[static_cast<std::size_t>(block)];
  }
  [[nodiscard]] std::int32_t Common(const Run& run, std::span<const BlockKey> keys) const;
  std::int32_t NewNode(std::int32_t parent);
  void Count(Node node, std::int32_t locks);
  void Unlink(std::int32_t node);
  void LinkBefore(std::int32_t node, std::int32_t newer);

  // The index: from the first key of a node to the node. Linear probing, at most half full.
  [[nodiscard]] std::size_t Probe(BlockKey key) const;
  [[nodiscard]] std::size_t Home(BlockKey key) const;
  void Enter(std::int32_t node);
  void Leave(std::int32_t node);

  std::size_t blocks_;
  std::vector<Slot> slots_;
  std::vector<Run> runs_{1};  // the root, which holds no block
  std::vector<std::int32_t> unused_;
  std::vector<std::int32_t> index_;
  std::int32_t oldest_ = kNil;
  std::int32_t newest_ = kNil;
  std::int32_t size_ = 0;
  std::int32_t evictable_ = 0;
  std::int64_t clock_ = 0;
};

}  // namespace twin
