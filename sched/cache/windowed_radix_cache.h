// The prefix cache of two pools: blocks of the layers that see all tokens, and pages of a
// WindowPool for layers that see a window.
//
// Each block that a sequence takes gets a page (TakePages). Behind the window the pages are given
// back while the sequence runs (FreeBehind), so that what it enters into the tree is in part
// without them.
//
// Source: SGLang 0.5.23, decisions observed.
//
// Easy to get wrong:
// - Pages behind the window go in bursts, and only those of the sequence's own blocks: pages of the
//   tree are evicted.
// - With a tree, whole pages of a window are left before the end, so that the latest full block can
//   end a hit.
// - Where the tree holds more of a sequence than it could use, the sequence enters just that much
//   at first (the branch), so that it becomes usable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.h"
#include "sched/cache/prefix_cache.h"
#include "sched/cache/window_pool.h"
#include "sched/cache/windowed_radix_tree.h"

namespace twin {

struct WindowedCacheConfig {
  std::int32_t pages = 0;            // of the window pool
  std::int32_t window = 1;           // tokens
  bool frees_at_checkpoints = true;  // pages behind the window, before a sequence enters the tree
};

// Invariants: a node's blocks all have pages, or none; of a sequence's own blocks, those behind
// WindowHold::freed have pages; no other block has one.
class WindowedRadixCache final : public PrefixCache {
 public:
  WindowedRadixCache(const KvPoolConfig& kv, bool enabled, const WindowedCacheConfig& config)
      : PrefixCache(kv, enabled),
        config_(config),
        pool_(config.pages, kv.blocks),
        tree_(enabled ? kv.blocks : 0, kv.block_size, config.window) {}

  [[nodiscard]] std::int32_t evictable() const override { return tree_.evictable(); }
  TreeHold Match(const Sequence& sequence, std::int32_t tokens) override;
  void Lock(TreeHold& hold) override;
  void Unlock(TreeHold& hold) override;
  std::span<const BlockId> BlocksOf(const TreeHold& hold) override;
  void Checkpoint(KvEditor& blocks, const Sequence& sequence, std::int32_t tokens,
                  TreeHold& hold) override;
  void Finish(KvEditor& blocks, const Sequence& sequence, std::int32_t tokens,
              TreeHold& hold) override;
  void Drop(const Sequence& sequence, TreeHold& hold) override;
  bool MakeFree(KvEditor& blocks, std::int64_t free) override;

  // Pages: all; free; of the tree, without a lock; evicted so far.
  [[nodiscard]] std::int32_t pages() const { return pool_.usable(); }
  [[nodiscard]] std::int32_t free_pages() const { return pool_.free(); }
  [[nodiscard]] std::int32_t evictable_pages() const { return tree_.window_evictable(); }
  [[nodiscard]] std::int64_t evicted_pages() const { return evicted_pages_; }

  // Gives pages to the blocks that the sequence has taken since the latest call.
  // REQUIRES: as many are free.
  void TakePages(const Sequence& sequence, TreeHold& hold);
  // Frees the pages behind the window of a sequence that goes on after `tokens` tokens, unless
  // fewer than `interval` tokens have fallen behind it.
  void FreeBehind(const Sequence& sequence, TreeHold& hold, std::int32_t tokens,
                  std::int32_t interval);
  // The sequence has decoded beyond the window: the tree's pages that cover a whole window may go.
  void UnlockPassedWindow(TreeHold& hold);

  // The sequence has ended and keeps its blocks until Finish(), or ReleaseEnded() if it was
  // cancelled.
  void KeepEnded(const Sequence& sequence, const TreeHold& hold);
  void ReleaseEnded(RequestId id);

  // Recounts from the sequences' blocks (position by position) and holds; false if an invariant is
  // broken. Cost: all blocks.
  struct Held {
    const Sequence* sequence = nullptr;
    const TreeHold* hold = nullptr;
  };
  [[nodiscard]] bool Audit(std::span<const Held> held) const;

 private:
  struct Ended {
    RequestId id{};
    std::vector<BlockId> paged;
  };
  // Blocks before the first one that is the sequence's own and has a page.
  [[nodiscard]] std::int32_t PagedFrom(const TreeHold& hold) const;
  // Whether a sequence with `tokens` computed tokens enters its branch alone; up to where it enters
  // the tree.
  [[nodiscard]] bool EntersBranch(std::int32_t tokens, const TreeHold& hold) const;
  [[nodiscard]] std::int32_t EntryEnd(std::int32_t tokens, const TreeHold& hold) const {
    return EntersBranch(tokens, hold) ? hold.window.branch : tokens;
  }
  RadixTree::Insertion Insert(KvEditor& blocks, const Sequence& sequence,
                              std::span<const BlockKey> keys, const TreeHold& hold);
  void TakePagesFrom(std::span<const BlockId> blocks);
  void Evicted(KvEditor& blocks, std::span<const BlockId> evicted,
               std::span<const BlockId> tombstoned);

  WindowedCacheConfig config_;
  WindowPool pool_;
  WindowedRadixTree tree_;
  std::int64_t evicted_pages_ = 0;
  std::vector<Ended> ended_;
  // Scratch.
  std::vector<BlockId> path_;
  std::vector<BlockId> evicted_;
  std::vector<BlockId> tombstoned_;
  std::vector<WindowedRadixTree::Adopted> adopted_;
};

}  // namespace twin
