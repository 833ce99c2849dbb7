#include "sched/cache/windowed_radix_cache.h"

#include <algorithm>

#include "core/check.h"

namespace twin {

TreeHold WindowedRadixCache::Match(const Sequence& sequence, std::int32_t tokens) {
  const std::span<const BlockKey> keys = Keys(sequence, tokens);
  if (keys.empty()) return {};
  const WindowedRadixTree::WindowHit hit = tree_.MatchWindow(keys);
  TreeHold hold{.node = hit.node, .blocks = hit.blocks};
  hold.window.paged = hit.blocks;
  if (hit.known_blocks > hit.blocks) hold.window.branch = hit.known_blocks * block_size();
  return hold;
}

void WindowedRadixCache::Lock(TreeHold& hold) {
  tree_.Lock(hold.node);
  const WindowedRadixTree::WindowLock lock = tree_.LockWindow(hold.node);
  hold.window.lock_begin = lock.begin;
  hold.window.covers_window = lock.is_whole;
  hold.window.locks = true;
}

void WindowedRadixCache::Unlock(TreeHold& hold) {
  tree_.Unlock(hold.node);
  if (hold.window.locks) tree_.UnlockWindow({.node = hold.node, .begin = hold.window.lock_begin});
  hold.window.locks = false;
}

void WindowedRadixCache::UnlockPassedWindow(TreeHold& hold) {
  if (!hold.window.locks || !hold.window.covers_window) return;
  tree_.UnlockWindow({.node = hold.node, .begin = hold.window.lock_begin});
  hold.window.locks = false;
}

std::span<const BlockId> WindowedRadixCache::BlocksOf(const TreeHold& hold) {
  path_.resize(static_cast<std::size_t>(hold.blocks));
  tree_.CopyPath(hold.node, 0, path_);
  return path_;
}

std::int32_t WindowedRadixCache::PagedFrom(const TreeHold& hold) const {
  return std::max(hold.blocks, hold.window.freed / block_size());
}

void WindowedRadixCache::TakePages(const Sequence& sequence, TreeHold& hold) {
  for (std::int32_t& at = hold.window.paged; at < sequence.blocks.held(); ++at) {
    pool_.Give(sequence.blocks.device[static_cast<std::size_t>(at)]);
  }
}

void WindowedRadixCache::FreeBehind(const Sequence& sequence, TreeHold& hold, std::int32_t tokens,
                                    std::int32_t interval) {
  std::int32_t& freed = hold.window.freed;
  if (tokens - config_.window < freed + interval) return;
  freed = std::max(freed, hold.blocks * block_size());
  const std::int32_t size = block_size();
  const std::int32_t kept =
      enabled() ? (std::max(config_.window, size) + size - 1) / size * size : config_.window;
  const std::int32_t end = std::max(freed, tokens - kept) / size * size;
  const std::span<const BlockId> own = sequence.blocks.device;
  for (; freed < end; freed += size) pool_.Take(own[static_cast<std::size_t>(freed / size)]);
}

bool WindowedRadixCache::EntersBranch(std::int32_t tokens, const TreeHold& hold) const {
  const std::int32_t branch = hold.window.branch;
  return branch > hold.blocks * block_size() && branch <= tokens;
}

RadixTree::Insertion WindowedRadixCache::Insert(KvEditor& blocks, const Sequence& sequence,
                                                std::span<const BlockKey> keys,
                                                const TreeHold& hold) {
  const std::span<const BlockId> held = std::span(sequence.blocks.device).first(keys.size());
  adopted_.clear();
  const RadixTree::Insertion inserted =
      tree_.InsertWindow(keys, held, hold.blocks, hold.window.freed / block_size(), adopted_);
  for (const WindowedRadixTree::Adopted& adopted : adopted_) {
    blocks.Exchange(adopted.before, held[static_cast<std::size_t>(adopted.position)]);
  }
  for (const BlockId taken : held.subspan(static_cast<std::size_t>(inserted.present))) {
    blocks.Keep(taken);
  }
  // The sequence's own copies of what the tree had give up their pages: to the tree's blocks, where
  // those have none.
  path_.resize(static_cast<std::size_t>(std::max(inserted.present - hold.blocks, 0)));
  tree_.CopyPath(inserted.node, hold.blocks, path_);
  for (std::size_t i = 0; i < path_.size(); ++i) {
    const BlockId own = held[static_cast<std::size_t>(hold.blocks) + i];
    if (own == path_[i] || !pool_.Has(own)) continue;
    if (pool_.Has(path_[i])) {
      pool_.Take(own);
    } else {
      pool_.Move(own, path_[i]);
    }
  }
  return inserted;
}

void WindowedRadixCache::Checkpoint(KvEditor& blocks, const Sequence& sequence, std::int32_t tokens,
                                    TreeHold& hold) {
  if (!enabled()) return;
  const std::int32_t end = EntryEnd(tokens, hold);
  const bool enters_branch = EntersBranch(tokens, hold);
  if (config_.frees_at_checkpoints) FreeBehind(sequence, hold, end - 1, 1);
  const std::span<const BlockKey> keys = Keys(sequence, end);
  if (keys.empty()) return;
  const RadixTree::Insertion inserted = Insert(blocks, sequence, keys, hold);
  for (std::size_t i = 0; i < path_.size(); ++i) {
    const std::int32_t position = hold.blocks + static_cast<std::int32_t>(i);
    if (sequence.blocks.device[static_cast<std::size_t>(position)] == path_[i]) continue;
    blocks.Replace(sequence, position, path_[i]);
  }
  TreeHold now = hold;
  now.node = inserted.node;
  now.blocks = static_cast<std::int32_t>(keys.size());
  Lock(now);
  Unlock(hold);
  hold = now;
  if (!enters_branch) return;
  hold.window.branch = 0;
  if (config_.frees_at_checkpoints) FreeBehind(sequence, hold, tokens - 1, 1);
}

void WindowedRadixCache::Finish(KvEditor& blocks, const Sequence& sequence, std::int32_t tokens,
                                TreeHold& hold) {
  std::erase_if(ended_, [&](const Ended& ended) { return ended.id == sequence.id; });
  const std::int32_t end = EntryEnd(tokens, hold);
  TreeHold left = hold;  // the blocks behind it are the sequence's own
  if (const std::span<const BlockKey> keys = Keys(sequence, end); !keys.empty()) {
    Insert(blocks, sequence, keys, hold);
    left.blocks = std::max(left.blocks, static_cast<std::int32_t>(keys.size()));
  }
  const auto first = static_cast<std::size_t>(PagedFrom(left));
  TakePagesFrom(std::span(sequence.blocks.device)
                    .first(static_cast<std::size_t>(hold.window.paged))
                    .subspan(std::min(first, static_cast<std::size_t>(hold.window.paged))));
  Unlock(hold);
  hold = {};
}

void WindowedRadixCache::Drop(const Sequence& sequence, TreeHold& hold) {
  const auto paged = static_cast<std::size_t>(hold.window.paged);
  const std::size_t first = std::min(static_cast<std::size_t>(PagedFrom(hold)), paged);
  TakePagesFrom(std::span(sequence.blocks.device).first(paged).subspan(first));
  Unlock(hold);
  hold = {};
}

bool WindowedRadixCache::MakeFree(KvEditor& blocks, std::int64_t free) {
  evicted_.clear();
  tombstoned_.clear();
  if (const std::int64_t missing = free - blocks.pool().free(); missing > 0) {
    tree_.Evict(static_cast<std::int32_t>(std::min<std::int64_t>(missing, tree_.evictable())),
                evicted_);
    Evicted(blocks, evicted_, tombstoned_);
    evicted_.clear();
  }
  if (const std::int64_t missing = free - pool_.free(); missing > 0) {
    const auto most = std::min<std::int64_t>(missing, tree_.window_evictable());
    tree_.EvictWindows(static_cast<std::int32_t>(most), evicted_, tombstoned_);
    Evicted(blocks, evicted_, tombstoned_);
  }
  return blocks.pool().free() >= free && pool_.free() >= free;
}

void WindowedRadixCache::Evicted(KvEditor& blocks, std::span<const BlockId> evicted,
                                 std::span<const BlockId> tombstoned) {
  const std::int32_t before = pool_.free();
  TakePagesFrom(tombstoned);
  for (const BlockId block : evicted) {
    if (pool_.Has(block)) pool_.Take(block);
    blocks.Discard(block);
  }
  evicted_pages_ += pool_.free() - before;
}

void WindowedRadixCache::TakePagesFrom(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) pool_.Take(block);
}

void WindowedRadixCache::KeepEnded(const Sequence& sequence, const TreeHold& hold) {
  const auto paged = static_cast<std::size_t>(hold.window.paged);
  const std::size_t first = std::min(static_cast<std::size_t>(PagedFrom(hold)), paged);
  const auto own = std::span(sequence.blocks.device).first(paged).subspan(first);
  ended_.push_back({sequence.id, {own.begin(), own.end()}});
}

void WindowedRadixCache::ReleaseEnded(RequestId id) {
  std::erase_if(ended_, [&](const Ended& ended) {
    if (ended.id == id) TakePagesFrom(ended.paged);
    return ended.id == id;
  });
}

bool WindowedRadixCache::Audit(std::span<const Held> held) const {
  std::vector<BlockId> paged;
  std::vector<BlockId> bare;
  tree_.ListBlocks(paged, bare);
  if (static_cast<std::int32_t>(paged.size()) != tree_.window_size()) return false;
  for (const Held& entry : held) {
    const std::span<const BlockId> table = entry.sequence->blocks.device;
    for (std::int32_t i = entry.hold->blocks; i < entry.hold->window.paged; ++i) {
      const bool has = i >= PagedFrom(*entry.hold);
      (has ? paged : bare).push_back(table[static_cast<std::size_t>(i)]);
    }
    if (entry.hold->window.paged > entry.sequence->blocks.held()) return false;
  }
  const auto has = [this](BlockId block) { return pool_.Has(block); };
  return pool_.Audit() && std::all_of(paged.begin(), paged.end(), has) &&
         std::none_of(bare.begin(), bare.end(), has) &&
         static_cast<std::int32_t>(paged.size()) == pool_.usable() - pool_.free();
}

}  // namespace twin
