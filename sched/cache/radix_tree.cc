#include "sched/cache/radix_tree.h"

#include <algorithm>
#include <bit>

#include "core/check.h"

namespace twin {

RadixTree::Hit RadixTree::Match(std::span<const BlockKey> keys) {
  const Walked walked = Walk(keys);
  UsePath(walked.node);
  return {Node{walked.node}, walked.blocks};
}

RadixTree::Insertion RadixTree::Insert(std::span<const BlockKey> keys,
                                       std::span<const BlockId> blocks) {
  CHECK(keys.size() == blocks.size());
  const Walked walked = Walk(keys);
  UsePath(walked.node);
  const auto present = static_cast<std::size_t>(walked.blocks);
  if (present == keys.size()) return {Node{walked.node}, walked.blocks};
  const std::int32_t leaf = Append(walked.node, static_cast<std::int32_t>(keys.size()),
                                   keys.subspan(present), blocks.subspan(present));
  return {Node{leaf}, walked.blocks};
}

std::int32_t RadixTree::Append(std::int32_t parent, std::int32_t end,
                               std::span<const BlockKey> keys, std::span<const BlockId> blocks) {
  slots_.resize(blocks_);
  const std::int32_t leaf = NewNode(parent);
  ++At(parent).children;
  Run& run = At(leaf);
  run.length = static_cast<std::int32_t>(keys.size());
  run.end = end;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto block = static_cast<std::int32_t>(Index(blocks[i]));
    SlotOf(block).key = keys[i];
    (i == 0 ? run.first : SlotOf(run.last).next) = block;
    run.last = block;
  }
  Enter(leaf);
  LinkBefore(leaf, kNil);
  run.used = ++clock_;
  size_ += run.length;
  evictable_ += run.length;
  return leaf;
}

RadixTree::Walked RadixTree::Walk(std::span<const BlockKey> keys) {
  Walked at;
  while (static_cast<std::size_t>(at.blocks) < keys.size() && !index_.empty()) {
    const std::span<const BlockKey> rest = keys.subspan(static_cast<std::size_t>(at.blocks));
    const std::int32_t child = index_[Probe(rest.front())];
    if (child == kNil) break;
    const std::int32_t common = Common(At(child), rest);
    at.blocks += common;
    at.node = child;
    if (common == At(child).length) continue;
    Unlink(child);
    LinkBefore(child, kNil);
    At(child).used = ++clock_;
    at.node = Split(child, common);
    break;
  }
  return at;
}

// At least 1: the first key is that of the node.
std::int32_t RadixTree::Common(const Run& run, std::span<const BlockKey> keys) const {
  const auto length = static_cast<std::size_t>(run.length);
  if (length <= keys.size() && SlotOf(run.last).key == keys[length - 1]) return run.length;
  const std::size_t most = std::min(length, keys.size());
  std::size_t common = 1;
  for (std::int32_t block = SlotOf(run.first).next; common < most; ++common) {
    if (SlotOf(block).key != keys[common]) break;
    block = SlotOf(block).next;
  }
  return static_cast<std::int32_t>(common);
}

// Moves the node's first blocks into a new node above it. The node keeps its number and so its
// holders, who have locked the new one with it.
std::int32_t RadixTree::Split(std::int32_t node, std::int32_t blocks) {
  Leave(node);
  const std::int32_t upper = NewNode(At(node).parent);
  Run& lower = At(node);
  Run& run = At(upper);
  run.first = run.last = lower.first;
  for (std::int32_t i = 1; i < blocks; ++i) run.last = SlotOf(run.last).next;
  run.length = blocks;
  run.end = lower.end - lower.length + blocks;
  run.children = 1;
  run.locks = lower.locks;
  run.used = lower.used;
  lower.used = ++clock_;
  lower.first = SlotOf(run.last).next;
  lower.length -= blocks;
  lower.parent = upper;
  LinkBefore(upper, node);
  Enter(upper);
  Enter(node);
  OnSplit(upper, node);
  return upper;
}

std::int32_t RadixTree::NewNode(std::int32_t parent) {
  std::int32_t node = kNil;
  if (unused_.empty()) {
    node = static_cast<std::int32_t>(runs_.size());
    runs_.emplace_back();
  } else {
    node = unused_.back();
    unused_.pop_back();
    At(node) = Run{};
  }
  At(node).parent = parent;
  return node;
}

void RadixTree::Remove(std::int32_t node) {
  OnRemove(node);
  const Run& run = At(node);
  Leave(node);
  Unlink(node);
  --At(run.parent).children;
  size_ -= run.length;
  evictable_ -= run.length;
  unused_.push_back(node);
}

void RadixTree::Count(Node node, std::int32_t locks) {
  for (auto at = static_cast<std::int32_t>(node); at != 0; at = At(at).parent) {
    Run& run = At(at);
    if (run.locks == 0) evictable_ -= run.length;
    run.locks += locks;
    CHECK(run.locks >= 0);
    if (run.locks == 0) evictable_ += run.length;
  }
}

void RadixTree::Evict(std::int32_t blocks, std::vector<BlockId>& evicted) {
  for (std::int32_t at = oldest_; at != kNil && blocks > 0;) {
    const Run run = At(at);
    if (run.children > 0 || run.locks > 0) {
      at = run.newer;
      continue;
    }
    AppendBlocks(at, evicted);
    blocks -= run.length;
    Remove(at);
    // A parent that was used before it has been passed over as no leaf.
    const bool parent_first = run.parent != 0 && At(run.parent).used < run.used;
    at = parent_first && At(run.parent).children == 0 ? run.parent : run.newer;
  }
}

void RadixTree::AppendBlocks(std::int32_t node, std::vector<BlockId>& blocks) const {
  const Run& run = At(node);
  std::int32_t block = run.first;
  for (std::int32_t i = 0; i < run.length; ++i, block = SlotOf(block).next) {
    blocks.push_back(BlockId{block});
  }
}

void RadixTree::ReplaceBlocks(std::int32_t node, std::span<const BlockId> blocks) {
  Run& run = At(node);
  CHECK(blocks.size() == static_cast<std::size_t>(run.length));
  Leave(node);
  std::int32_t before = run.first;
  run.last = kNil;
  for (const BlockId block : blocks) {
    const auto index = static_cast<std::int32_t>(Index(block));
    SlotOf(index).key = SlotOf(before).key;
    before = SlotOf(before).next;
    (run.last == kNil ? run.first : SlotOf(run.last).next) = index;
    run.last = index;
  }
  Enter(node);
}

void RadixTree::CopyPath(Node node, std::int32_t first, std::span<BlockId> out) const {
  const std::int32_t end = first + static_cast<std::int32_t>(out.size());
  for (auto at = static_cast<std::int32_t>(node); at != 0; at = At(at).parent) {
    const Run& run = At(at);
    const std::int32_t begin = run.end - run.length;
    if (begin >= end) continue;
    if (run.end <= first) break;
    std::int32_t block = run.first;
    for (std::int32_t i = begin; i < std::min(run.end, end); ++i, block = SlotOf(block).next) {
      if (i >= first) out[static_cast<std::size_t>(i - first)] = BlockId{block};
    }
  }
}

// The end of the path becomes the newest, its parent the one before it, and so on.
void RadixTree::UsePath(std::int32_t node) {
  std::int64_t length = 0;
  for (std::int32_t at = node; at != 0; at = At(at).parent) ++length;
  clock_ += length;
  std::int64_t used = clock_;
  std::int32_t newer = kNil;
  for (std::int32_t at = node; at != 0; at = At(at).parent) {
    Unlink(at);
    LinkBefore(at, newer);
    At(at).used = used--;
    newer = at;
  }
}

void RadixTree::Unlink(std::int32_t node) {
  const Run& run = At(node);
  (run.older == kNil ? oldest_ : At(run.older).newer) = run.newer;
  (run.newer == kNil ? newest_ : At(run.newer).older) = run.older;
}

// Links the node before `newer` in the order of use; kNil makes it the most recent one.
void RadixTree::LinkBefore(std::int32_t node, std::int32_t newer) {
  Run& run = At(node);
  run.newer = newer;
  run.older = newer == kNil ? newest_ : At(newer).older;
  (run.older == kNil ? oldest_ : At(run.older).newer) = node;
  (newer == kNil ? newest_ : At(newer).older) = node;
}

std::size_t RadixTree::Home(BlockKey key) const {
  const std::uint64_t hash = static_cast<std::uint64_t>(key) * 0x9E3779B97F4A7C15ull;
  return static_cast<std::size_t>(hash >> (64 - std::countr_zero(index_.size())));
}

std::size_t RadixTree::Probe(BlockKey key) const {
  std::size_t slot = Home(key);
  while (index_[slot] != kNil && SlotOf(At(index_[slot]).first).key != key) {
    slot = (slot + 1) & (index_.size() - 1);
  }
  return slot;
}

void RadixTree::Enter(std::int32_t node) {
  const std::size_t nodes = runs_.size() - unused_.size();
  if (index_.size() < 2 * nodes) {
    std::vector<std::int32_t> old;
    old.swap(index_);
    index_.assign(std::bit_ceil(std::max<std::size_t>(64, 4 * nodes)), kNil);
    for (const std::int32_t entered : old) {
      if (entered != kNil) index_[Probe(SlotOf(At(entered).first).key)] = entered;
    }
  }
  const std::size_t slot = Probe(SlotOf(At(node).first).key);
  CHECK(index_[slot] == kNil);
  index_[slot] = node;
}

// Moves later entries of the cluster back, so that no probe ends before it finds its key.
void RadixTree::Leave(std::int32_t node) {
  const std::size_t mask = index_.size() - 1;
  std::size_t hole = Probe(SlotOf(At(node).first).key);
  CHECK(index_[hole] == node);
  for (std::size_t next = (hole + 1) & mask; index_[next] != kNil; next = (next + 1) & mask) {
    const std::size_t home = Home(SlotOf(At(index_[next]).first).key);
    if (((next - home) & mask) < ((next - hole) & mask)) continue;
    index_[hole] = index_[next];
    hole = next;
  }
  index_[hole] = kNil;
}

}  // namespace twin
