#include "sched/cache/radix_cache.h"

#include <algorithm>

namespace twin {

TreeHold RadixCache::Match(const Sequence& sequence, std::int32_t tokens) {
  const RadixTree::Hit hit = tree_.Match(Keys(sequence, tokens));
  return {.node = hit.node, .blocks = hit.blocks};
}

std::span<const BlockId> RadixCache::BlocksOf(const TreeHold& hold) {
  scratch_.resize(static_cast<std::size_t>(hold.blocks));
  tree_.CopyPath(hold.node, 0, scratch_);
  return scratch_;
}

RadixTree::Insertion RadixCache::Insert(KvEditor& blocks, const Sequence& sequence,
                                        std::span<const BlockKey> keys) {
  const std::span<const BlockId> held = std::span(sequence.blocks.device).first(keys.size());
  RadixTree::Insertion inserted = tree_.Insert(keys, held);
  for (const BlockId taken : held.subspan(static_cast<std::size_t>(inserted.present))) {
    blocks.Keep(taken);
  }
  const auto prompt = static_cast<std::size_t>(sequence.prompt_tokens / block_size());
  // Generated tokens become a node of their own.
  if (keys.size() > prompt) tree_.Match(keys.first(prompt));
  return inserted;
}

void RadixCache::Checkpoint(KvEditor& blocks, const Sequence& sequence, std::int32_t tokens,
                            TreeHold& hold) {
  const std::span<const BlockKey> keys = Keys(sequence, tokens);
  if (keys.empty()) return;
  const RadixTree::Insertion inserted = Insert(blocks, sequence, keys);
  TreeHold now{.node = inserted.node, .blocks = static_cast<std::int32_t>(keys.size())};
  if (inserted.present > hold.blocks) {
    scratch_.resize(static_cast<std::size_t>(inserted.present - hold.blocks));
    tree_.CopyPath(now.node, hold.blocks, scratch_);
    for (std::int32_t i = hold.blocks; i < inserted.present; ++i) {
      blocks.Replace(sequence, i, scratch_[static_cast<std::size_t>(i - hold.blocks)]);
    }
  }
  Lock(now);
  Unlock(hold);
  hold = now;
}

void RadixCache::Finish(KvEditor& blocks, const Sequence& sequence, std::int32_t tokens,
                        TreeHold& hold) {
  if (const std::span<const BlockKey> keys = Keys(sequence, tokens); !keys.empty()) {
    Insert(blocks, sequence, keys);
  }
  Unlock(hold);
  hold = {};
}

void RadixCache::Drop(const Sequence& /*sequence*/, TreeHold& hold) {
  Unlock(hold);
  hold = {};
}

bool RadixCache::MakeFree(KvEditor& blocks, std::int64_t free) {
  const std::int64_t missing = free - blocks.pool().free();
  if (missing <= 0) return true;
  scratch_.clear();
  tree_.Evict(static_cast<std::int32_t>(std::min<std::int64_t>(missing, evictable())), scratch_);
  for (const BlockId evicted : scratch_) blocks.Discard(evicted);
  return blocks.pool().free() >= free;
}

}  // namespace twin
