#include "sched/cache/windowed_radix_tree.h"

#include <algorithm>

#include "core/check.h"

namespace twin {

WindowedRadixTree::WindowHit WindowedRadixTree::MatchWindow(std::span<const BlockKey> keys) {
  const Walked walked = Walk(keys);
  ListPath(walked.node);
  bool unbroken = true;  // no tombstone from the root on
  std::int64_t covered = 0;
  std::int32_t best = 0;
  for (const std::int32_t node : path_) {
    if (!PartOf(node).present) {
      unbroken = false;
      covered = 0;
      continue;
    }
    covered += Tokens(node);
    if (unbroken || covered >= window_) best = node;
  }
  UseWindow(best);
  UsePath(best);
  return {Node{best}, best == 0 ? 0 : At(best).end, walked.blocks};
}

RadixTree::Insertion WindowedRadixTree::InsertWindow(std::span<const BlockKey> keys,
                                                     std::span<const BlockId> blocks,
                                                     std::int32_t held, std::int32_t paged,
                                                     std::vector<Adopted>& adopted) {
  CHECK(keys.size() == blocks.size());
  const Walked walked = Walk(keys);
  ListPath(walked.node);
  for (const std::int32_t node : path_) {
    if (At(node).end > held && !PartOf(node).present) Revive(node, blocks, paged, adopted);
  }
  std::int32_t end = walked.node;
  if (static_cast<std::size_t>(walked.blocks) < keys.size()) {
    end = AppendWindow(end, keys, blocks, walked.blocks, paged);
  }
  UseWindow(end);
  UsePath(end);
  return {Node{end}, walked.blocks};
}

// Gives the tombstone a window part from position `paged` on.
void WindowedRadixTree::Revive(std::int32_t node, std::span<const BlockId> blocks,
                               std::int32_t paged, std::vector<Adopted>& adopted) {
  if (paged >= At(node).end) return;
  if (paged > Begin(node)) Split(node, paged - Begin(node));
  SetPart(node);
  if (At(node).locks > 0) return;
  before_.clear();
  AppendBlocks(node, before_);
  const auto begin = static_cast<std::size_t>(Begin(node));
  ReplaceBlocks(node, blocks.subspan(begin, static_cast<std::size_t>(At(node).length)));
  for (std::size_t i = 0; i < before_.size(); ++i) {
    adopted.push_back({static_cast<std::int32_t>(begin + i), before_[i]});
  }
}

// The part before `paged` becomes a tombstone, and the latest window a node of its own, the end.
std::int32_t WindowedRadixTree::AppendWindow(std::int32_t parent, std::span<const BlockKey> keys,
                                             std::span<const BlockId> blocks, std::int32_t present,
                                             std::int32_t paged) {
  const auto first = static_cast<std::size_t>(present);
  const auto end = static_cast<std::int32_t>(keys.size());
  const std::int32_t leaf = Append(parent, end, keys.subspan(first), blocks.subspan(first));
  if (parts_.size() <= static_cast<std::size_t>(leaf)) {
    parts_.resize(static_cast<std::size_t>(leaf) + 1);
  }
  PartOf(leaf) = {};
  if (paged >= end) return leaf;
  if (paged > present) Split(leaf, paged - present);
  const std::int32_t window_blocks = (window_ + block_size_ - 1) / block_size_;
  if (At(leaf).length > window_blocks) SetPart(Split(leaf, At(leaf).length - window_blocks));
  SetPart(leaf);
  return leaf;
}

WindowedRadixTree::WindowLock WindowedRadixTree::LockWindow(Node node) {
  WindowLock lock{.node = node};
  std::int64_t covered = 0;
  for (auto at = static_cast<std::int32_t>(node); at != 0 && covered < window_;
       at = At(at).parent) {
    covered += Tokens(at);
    lock.begin = Begin(at);
  }
  lock.is_whole = covered >= window_;
  CountWindow(lock, 1);
  return lock;
}

void WindowedRadixTree::CountWindow(const WindowLock& lock, std::int32_t locks) {
  for (auto at = static_cast<std::int32_t>(lock.node); at != 0 && Begin(at) >= lock.begin;
       at = At(at).parent) {
    Part& part = PartOf(at);
    const std::int32_t pages = part.present ? At(at).length : 0;
    if (part.locks == 0) window_evictable_ -= pages;
    part.locks += locks;
    CHECK(part.locks >= 0);
    if (part.locks == 0) window_evictable_ += pages;
  }
}

void WindowedRadixTree::EvictWindows(std::int32_t blocks, std::vector<BlockId>& evicted,
                                     std::vector<BlockId>& tombstoned) {
  for (std::int32_t at = oldest_part_; at != kNil && blocks > 0;) {
    const std::int32_t newer = PartOf(at).newer;
    if (PartOf(at).locks == 0) {
      blocks -= At(at).length;
      if (At(at).children == 0 && At(at).locks == 0) {
        AppendBlocks(at, evicted);
        Remove(at);
      } else {
        AppendBlocks(at, tombstoned);
        RemovePart(at);
      }
    }
    at = newer;
  }
}

void WindowedRadixTree::ListBlocks(std::vector<BlockId>& paged,
                                   std::vector<BlockId>& tombstones) const {
  for (std::int32_t at = oldest(); at != kNil; at = At(at).newer) {
    AppendBlocks(at, parts_[static_cast<std::size_t>(at)].present ? paged : tombstones);
  }
}

void WindowedRadixTree::ListPath(std::int32_t node) {
  path_.clear();
  for (std::int32_t at = node; at != 0; at = At(at).parent) path_.push_back(at);
  std::reverse(path_.begin(), path_.end());
}

// The node's window part becomes the most recently used one. REQUIRES: it has none.
void WindowedRadixTree::SetPart(std::int32_t node) {
  Part& part = PartOf(node);
  CHECK(!part.present);
  part.present = true;
  LinkPartBehind(node, kNil);
  window_size_ += At(node).length;
  if (part.locks == 0) window_evictable_ += At(node).length;
}

void WindowedRadixTree::RemovePart(std::int32_t node) {
  Part& part = PartOf(node);
  if (!part.present) return;
  CHECK(part.locks == 0);
  UnlinkPart(node);
  part.present = false;
  window_size_ -= At(node).length;
  window_evictable_ -= At(node).length;
}

// The end of the path becomes the newest, its parent the one before it, and so on.
void WindowedRadixTree::UseWindow(std::int32_t node) {
  std::int64_t passed = 0;
  std::int32_t newer = kNil;
  for (std::int32_t at = node; at != 0 && passed < std::int64_t{window_} + block_size_;
       at = At(at).parent) {
    passed += Tokens(at);
    if (!PartOf(at).present) continue;
    UnlinkPart(at);
    LinkPartBehind(at, newer);
    newer = at;
  }
}

void WindowedRadixTree::OnSplit(std::int32_t upper, std::int32_t lower) {
  if (parts_.size() <= static_cast<std::size_t>(upper)) {
    parts_.resize(static_cast<std::size_t>(upper) + 1);
  }
  PartOf(upper) = {.present = PartOf(lower).present, .locks = PartOf(lower).locks};
  if (PartOf(upper).present) LinkPartBehind(upper, lower);
}

void WindowedRadixTree::UnlinkPart(std::int32_t node) {
  const Part& part = PartOf(node);
  (part.older == kNil ? oldest_part_ : PartOf(part.older).newer) = part.newer;
  (part.newer == kNil ? newest_part_ : PartOf(part.newer).older) = part.older;
}

// Links the part behind `newer` in the order of use; kNil makes it the most recent one.
void WindowedRadixTree::LinkPartBehind(std::int32_t node, std::int32_t newer) {
  Part& part = PartOf(node);
  part.newer = newer;
  part.older = newer == kNil ? newest_part_ : PartOf(newer).older;
  (part.older == kNil ? oldest_part_ : PartOf(part.older).newer) = node;
  (newer == kNil ? newest_part_ : PartOf(newer).older) = node;
}

}  // namespace twin
