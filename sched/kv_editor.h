// Changes of blocks that a policy with a prefix tree makes, in a plan or between two plans.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ids.h"
#include "sched/cache/kv_pool.h"
#include "sched/sequence.h"
#include "sched/step_plan.h"

namespace twin {

// Changes take effect at once; changes that executors must follow are logged for the next plan.
// Borrows everything for the duration of one call of the policy.
class KvEditor {
 public:
  KvEditor(SequenceTable& sequences, KvPool& pool, std::vector<KvOperation>& log)
      : sequences_(sequences), pool_(pool), log_(log) {}

  [[nodiscard]] const KvPool& pool() const { return pool_; }
  // nullptr if the request has left.
  [[nodiscard]] const Sequence* Find(RequestId id) const { return sequences_.Find(id); }

  // The tree keeps the block of a sequence, and gives it up again (KvPool).
  void Keep(BlockId block) { pool_.Keep(block); }
  void Discard(BlockId block) { pool_.Discard(block); }
  // In the tree the block of a sequence, of the same content, takes the place of one that no
  // sequence holds.
  void Exchange(BlockId gone, BlockId taken) {
    pool_.DropKept(gone);
    pool_.Keep(taken);
  }

  // The sequence's block at `position` goes; the kept block, of the same content, takes its place.
  void Replace(const Sequence& sequence, std::int32_t position, BlockId kept) {
    BlockTable& table = sequences_[sequence.id].blocks;
    const BlockId gone = table.device[static_cast<std::size_t>(position)];
    pool_.ReplaceByKept(table, position, kept);
    log_.push_back({KvOperation::Kind::kReplace, sequence.id, kept, gone});
  }

 private:
  SequenceTable& sequences_;
  KvPool& pool_;
  std::vector<KvOperation>& log_;
};

}  // namespace twin
