// The prefix cache of one pool, in a radix tree.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sched/cache/prefix_cache.h"
#include "sched/cache/radix_tree.h"

namespace twin {

class RadixCache final : public PrefixCache {
 public:
  RadixCache(const KvPoolConfig& kv, bool enabled)
      : PrefixCache(kv, enabled), tree_(enabled ? kv.blocks : 0) {}

  [[nodiscard]] std::int32_t evictable() const override { return tree_.evictable(); }
  TreeHold Match(const Sequence& sequence, std::int32_t tokens) override;
  void Lock(TreeHold& hold) override { tree_.Lock(hold.node); }
  void Unlock(TreeHold& hold) override { tree_.Unlock(hold.node); }
  std::span<const BlockId> BlocksOf(const TreeHold& hold) override;
  void Checkpoint(KvEditor& blocks, const Sequence& sequence, std::int32_t tokens,
                  TreeHold& hold) override;
  void Finish(KvEditor& blocks, const Sequence& sequence, std::int32_t tokens,
              TreeHold& hold) override;
  void Drop(const Sequence& sequence, TreeHold& hold) override;
  bool MakeFree(KvEditor& blocks, std::int64_t free) override;

 private:
  RadixTree::Insertion Insert(KvEditor& blocks, const Sequence& sequence,
                              std::span<const BlockKey> keys);

  RadixTree tree_;
  std::vector<BlockId> scratch_;
};

}  // namespace twin
