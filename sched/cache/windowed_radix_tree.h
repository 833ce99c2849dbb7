// A radix tree for a cache of two pools: all layers that see every token, and layers that see a
// window of W tokens (window_pool.h).
//
// Each node has its blocks; its window part, the pages of these blocks, can be missing: then the
// node is a tombstone. A prefix can be used if the window before its end is there, so a hit ends
// where it is, and can be shorter than the prefix that the tree holds.
//
// Source: SGLang 0.5.23, decisions observed.
//
// Easy to get wrong:
// - A node is a valid end of a hit if window parts cover W tokens above its end without a tombstone
//   in between, or reach the root.
// - Window parts are locked over whole nodes from the end upwards until W tokens are covered;
//   tombstones among them are locked and count. A window part can be evicted from a node whose
//   blocks are locked.
// - The window parts have an order of use of their own: a visit renews the nodes of its latest
//   W + block_size tokens only, and a split leaves the upper part behind the lower one.
// - A new leaf is divided so that its last node has one window: a lock on it pins no more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.h"
#include "sched/cache/radix_tree.h"

namespace twin {

// Knows no pool, as RadixTree: its owner moves pages as the results say. Memory: 16 bytes per node
// more.
class WindowedRadixTree final : public RadixTree {
 public:
  // `window`: tokens, at least 1.
  WindowedRadixTree(std::int32_t blocks, std::int32_t block_size, std::int32_t window)
      : RadixTree(blocks), block_size_(block_size), window_(window), parts_(1) {}

  struct WindowHit {
    Node node = Node::kRoot;  // the deepest valid end
    std::int32_t blocks = 0;
    std::int32_t known_blocks = 0;  // of the longest prefix that the tree holds
  };
  // Finds the longest prefix of `keys` that can be used. Splits a node if the longest prefix that
  // the tree holds ends inside.
  WindowHit MatchWindow(std::span<const BlockKey> keys);

  // A block that InsertWindow took of a sequence for a prefix that the tree had.
  struct Adopted {
    std::int32_t position = 0;  // in the prefix
    BlockId before{};           // the tree's block, in whose place the sequence's is now
  };
  // As Insert, for a sequence that holds `held` leading blocks of the tree, and whose blocks have
  // pages from position `paged` on. Behind `held`, tombstones become window parts from `paged` on:
  // by the sequence's pages, and where the node is unlocked by its blocks, which are appended to
  // `adopted`.
  Insertion InsertWindow(std::span<const BlockKey> keys, std::span<const BlockId> blocks,
                         std::int32_t held, std::int32_t paged, std::vector<Adopted>& adopted);

  struct WindowLock {
    Node node = Node::kRoot;  // its end
    std::int32_t begin = 0;   // blocks before the locked nodes
    bool is_whole = false;    // it covers a window
  };
  // Locks the window parts of the latest window before the end of `node`.
  WindowLock LockWindow(Node node);
  void UnlockWindow(const WindowLock& lock) { CountWindow(lock, -1); }

  // Evicts window parts without a lock, the least recently used first, until `blocks` pages or all
  // that can go are evicted. An unlocked leaf goes as a whole: its blocks are appended to
  // `evicted`. Of other nodes the window part goes: its blocks are appended to `tombstoned`.
  void EvictWindows(std::int32_t blocks, std::vector<BlockId>& evicted,
                    std::vector<BlockId>& tombstoned);

  // Pages of window parts; those without a lock.
  [[nodiscard]] std::int32_t window_size() const { return window_size_; }
  [[nodiscard]] std::int32_t window_evictable() const { return window_evictable_; }

  // Appends the blocks of all nodes that have window parts, and of all nodes that have none.
  // Cost: all nodes. For audits.
  void ListBlocks(std::vector<BlockId>& paged, std::vector<BlockId>& tombstones) const;

 private:
  struct Part {  // of a node
    bool present = false;
    std::int32_t locks = 0;
    std::int32_t older = kNil;  // neighbours in the order of use, if present
    std::int32_t newer = kNil;
  };

  [[nodiscard]] Part& PartOf(std::int32_t node) { return parts_[static_cast<std::size_t>(node)]; }
  [[nodiscard]] std::int64_t Tokens(std::int32_t node) const {
    return std::int64_t{At(node).length} * block_size_;
  }
  [[nodiscard]] std::int32_t Begin(std::int32_t node) const {
    return At(node).end - At(node).length;
  }
  // The nodes from the root, which is left out, to `node`, into path_.
  void ListPath(std::int32_t node);
  void Revive(std::int32_t node, std::span<const BlockId> blocks, std::int32_t paged,
              std::vector<Adopted>& adopted);
  std::int32_t AppendWindow(std::int32_t parent, std::span<const BlockKey> keys,
                            std::span<const BlockId> blocks, std::int32_t present,
                            std::int32_t paged);
  void SetPart(std::int32_t node);
  void RemovePart(std::int32_t node);
  void UseWindow(std::int32_t node);
  void CountWindow(const WindowLock& lock, std::int32_t locks);
  void UnlinkPart(std::int32_t node);
  void LinkPartBehind(std::int32_t node, std::int32_t newer);

  void OnSplit(std::int32_t upper, std::int32_t lower) override;
  void OnRemove(std::int32_t node) override { RemovePart(node); }

  std::int32_t block_size_;
  std::int32_t window_;
  std::vector<Part> parts_;  // by node
  std::vector<std::int32_t> path_;
  std::vector<BlockId> before_;  // scratch of Revive
  std::int32_t oldest_part_ = kNil;
  std::int32_t newest_part_ = kNil;
  std::int32_t window_size_ = 0;
  std::int32_t window_evictable_ = 0;
};

}  // namespace twin
