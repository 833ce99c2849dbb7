// The calls with which a policy builds one step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/time.h"
#include "sched/cache/group_tables.h"
#include "sched/cache/kv_pool.h"
#include "sched/handover.h"
#include "sched/kv_editor.h"
#include "sched/policy/policy.h"
#include "sched/sequence.h"
#include "sched/step_calls.h"
#include "sched/step_plan.h"

namespace twin {

// Number of sequences in each state, and the latest request admitted for the first time.
struct Census {
  std::int32_t waiting = 0;
  std::int32_t running = 0;
  std::int32_t swapped = 0;
  std::int32_t prefill_only = 0;  // in any of these states
  std::int32_t arriving = 0;      // their keys and values are being copied here; also in `waiting`
  std::int64_t newest_admitted = -1;
};

// Enters the full blocks of the sequence's first `tokens` tokens into the cache. `groups`: null if
// it has one table.
void PublishBlocks(KvPool& pool, GroupTables* groups, Sequence& sequence, std::int32_t tokens);
// Frees the blocks of all tables of the sequence.
void ReleaseTables(GroupTables& groups, Sequence& sequence);

// Each call takes effect on the sequences and the KV pool immediately, is written into the plan,
// and is checked against the invariants (throws InvariantViolation). Overloads that take a Sequence
// avoid a look-up; it must be a reference returned by sequence(). Borrows everything for the
// duration of one Policy::Plan call.
class StepBuilder {
 public:
  // `servable_tokens`: the most tokens, output limit included, of a request that is not too long
  // for the model; Reject() checks its reason against it (I15). kTokensUnchecked: it does not.
  static constexpr std::int32_t kTokensUnchecked = -1;

  StepBuilder(TimePoint now, const PolicyTraits& traits, SequenceTable& sequences, KvPool& pool,
              Census& census, StepPlan& plan, std::vector<Reservation>& reservations,
              std::int32_t servable_tokens = kTokensUnchecked, GroupTables* groups = nullptr)
      : now_(now),
        traits_(traits),
        sequences_(sequences),
        pool_(pool),
        census_(census),
        plan_(plan),
        reservations_(reservations),
        servable_tokens_(servable_tokens),
        groups_(groups) {}

  [[nodiscard]] TimePoint now() const { return now_; }
  [[nodiscard]] const PolicyTraits& traits() const { return traits_; }
  [[nodiscard]] const Sequence& sequence(RequestId id) const { return sequences_[id]; }
  [[nodiscard]] const KvPool& pool() const { return pool_; }
  [[nodiscard]] const StepPlan& plan() const { return plan_; }
  // The tables of sequences that have one for each KV group; nullptr if they have one in all.
  [[nodiscard]] const GroupTables* groups() const { return groups_; }
  // From now on each call that changes something is added to `calls`, which is borrowed. Calls for
  // drafts, padded rows, transfers, prefix trees and deferred releases are not.
  void Record(StepCalls& calls) { calls_ = &calls; }

  // Moves a waiting sequence to the running state, without blocks: call Grow next, or Reserve and
  // then Grow.
  void Admit(RequestId id);

  // Takes blocks until the sequence holds enough for `tokens` tokens, from its reservation first;
  // gives none back, but for those of KV groups that are no longer needed. Returns false and takes
  // none if too few blocks are free.
  [[nodiscard]] bool Grow(const Sequence& sequence, std::int32_t tokens) {
    return tokens <= sequence.blocks.capacity_tokens || GrowSlowly(Mutable(sequence), tokens);
  }
  [[nodiscard]] bool Grow(RequestId id, std::int32_t tokens) {
    return Grow(sequences_[id], tokens);
  }

  // Promises `blocks` further blocks to the sequence; false if too few are free. The sequence does
  // not hold them yet: Grow takes them.
  [[nodiscard]] bool Reserve(RequestId id, std::int32_t blocks);

  // Adds the next `tokens` tokens of the sequence to the step, its offered drafts after the known
  // ones; drafts for which `tokens` does not suffice are dropped. `padded_tokens` is the row length
  // in a padded batch, 0 otherwise.
  // REQUIRES: the sequence is running and its blocks cover the tokens.
  void Schedule(const Sequence& sequence, std::int32_t tokens, std::int32_t padded_tokens = 0);
  void Schedule(RequestId id, std::int32_t tokens, std::int32_t padded_tokens = 0) {
    Schedule(sequences_[id], tokens, padded_tokens);
  }

  // Schedules one token for each of the leading `ids`, up to the first that is not a plain decode
  // or is beyond the limits; returns how many. A plain decode has one known token left to compute
  // and holds a block for it or can get one, and is not in flight (with
  // traits().overlaps_own_steps: is not certain_to_end()). Equivalent to Grow and Schedule, and
  // with traits().publishes_in_steps() to PublishPrefix, for each of them,
  // but several times as fast.
  std::size_t ScheduleDecodes(std::span<const RequestId> ids, const DecodeLimits& limits = {});

  // Lengthens the next item of an admitted sequence by `tokens` tokens of padding, which take the
  // place of its drafts: they are computed and never accepted.
  void PadWithDrafts(RequestId id, std::int32_t tokens);

  // Takes a sequence out of the step again. REQUIRES: the sequence is in the step's work.
  void Unschedule(RequestId id);

  // Adds a finished row of a padded batch, which is still computed.
  void PadRow(RequestId id, std::int32_t tokens);

  // Frees all blocks of the sequence and makes it wait; its tokens will be computed again.
  void PreemptByRecompute(RequestId id);

  // Moves all blocks to the host. Returns false and changes nothing if too few host blocks are
  // free.
  [[nodiscard]] bool SwapOut(RequestId id);
  // Moves all blocks back from the host, and the sequence runs again. Returns false and changes
  // nothing if too few blocks are free.
  [[nodiscard]] bool SwapIn(RequestId id);

  // Rejects a request that can never be served, or one too many. REQUIRES: it is waiting or swapped
  // out.
  void Reject(RequestId id, RejectReason reason);

  // Frees the blocks of a finished sequence. Only with traits().defers_release.
  void Release(RequestId id);

  // Takes blocks for `tokens` tokens of a waiting sequence whose keys and values are at another
  // replica (RemoteKv::kElsewhere), the first `cached_blocks` of them from the prefix cache; the
  // rest is copied while it waits.
  // REQUIRES: enough blocks are free; the cache holds less than the other replica, and `tokens` is
  // at least the number computed there (Sequence::remote_tokens).
  void AwaitTransfer(RequestId id, std::int32_t cached_blocks, std::int32_t tokens);
  // In place of AwaitTransfer, if the prefix cache here holds as much of the sequence as the other
  // replica: nothing is copied.
  void ForgoTransfer(RequestId id);

  // Finds the leading full blocks of the sequence in the cache; at least one token is left to
  // compute.
  [[nodiscard]] CacheHit LookupPrefix(RequestId id) const;
  // Attaches the first `blocks` cached blocks to an admitted sequence; 0 is recorded as a miss.
  // With KV groups: what the latest LookupPrefix found.
  void AttachPrefix(RequestId id, std::int32_t blocks);
  // Free blocks that admitting a sequence takes: for `tokens` tokens after the hit; for all of its
  // tokens, of which a KV group counts no more than it needs at a time; and how many blocks an
  // empty cache must have for them.
  [[nodiscard]] std::int32_t BlocksToAdmit(std::int32_t tokens, const CacheHit& hit) const {
    if (groups_ != nullptr) [[unlikely]]
      return groups_->BlocksToAdmit(tokens, hit);
    return pool_.BlocksFor(tokens) + hit.free_blocks - hit.blocks;
  }
  [[nodiscard]] std::int32_t BlocksForWhole(std::int32_t tokens, const CacheHit& hit) const {
    if (groups_ != nullptr) [[unlikely]]
      return groups_->BlocksForWhole(tokens, hit);
    return pool_.BlocksFor(tokens) + hit.free_blocks - hit.blocks;
  }
  [[nodiscard]] std::int64_t BlocksAtMost(std::int32_t tokens) const {
    if (groups_ != nullptr) [[unlikely]]
      return groups_->BlocksAtMost(tokens);
    return pool_.BlocksFor(tokens);
  }
  // For policies with a prefix tree. Attaches blocks that the tree keeps to an admitted sequence;
  // none are recorded as a miss.
  void AttachKept(RequestId id, std::span<const BlockId> blocks);
  // For a policy with a prefix tree: changes blocks of sequences and writes that into the plan.
  [[nodiscard]] KvEditor blocks() { return {sequences_, pool_, plan_.kv}; }
  // Enters the full blocks of the first `tokens` tokens into the cache, under their keys.
  void PublishPrefix(const Sequence& sequence, std::int32_t tokens) {
    if (!pool_.HasUnpublished(sequence.blocks, tokens)) return;
    Log(StepCall::Kind::kPublishPrefix, sequence.id, tokens);
    PublishBlocks(pool_, groups_, Mutable(sequence), tokens);
  }

 private:
  // The sequence as an element of this builder's own table, of which policies have read-only views.
  static Sequence& Mutable(const Sequence& s) { return const_cast<Sequence&>(s); }
  [[nodiscard]] bool GrowSlowly(Sequence& s, std::int32_t tokens) {
    if (!TakeBlocks(s, tokens)) return false;
    Log(StepCall::Kind::kGrow, s.id, tokens);
    return true;
  }
  [[nodiscard]] bool TakeBlocks(Sequence& s, std::int32_t tokens);
  [[nodiscard]] bool GrowTables(Sequence& s, std::int32_t tokens);
  [[noreturn]] void RefuseItem(const Sequence& s, std::int32_t tokens) const;
  void CheckReason(const Sequence& s, RejectReason reason) const;
  template <bool kOverlaps>
  std::size_t FillDecodes(std::span<const RequestId> ids, const DecodeLimits& limits,
                          std::span<WorkItem> items);
  void PublishFull(Sequence& s, std::int32_t tokens) {
    if (pool_.HasUnpublished(s.blocks, tokens)) PublishBlocks(pool_, groups_, s, tokens);
  }
  void LogRelease(RequestId id);
  void Log(StepCall::Kind kind, RequestId id, std::int32_t a = 0, std::int32_t b = 0) {
    if (calls_ != nullptr) [[unlikely]]
      calls_->calls.push_back({kind, id, a, b});
  }

  TimePoint now_;
  const PolicyTraits& traits_;
  SequenceTable& sequences_;
  KvPool& pool_;
  Census& census_;
  StepPlan& plan_;
  std::vector<Reservation>& reservations_;
  std::int32_t servable_tokens_;
  GroupTables* groups_;
  StepCalls* calls_ = nullptr;
};

}  // namespace twin
