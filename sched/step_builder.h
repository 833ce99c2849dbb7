// A policy's hands: every change that it makes while it decides one step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "core/time.h"
#include "sched/cache/kv_pool.h"
#include "sched/policy/policy.h"
#include "sched/sequence.h"
#include "sched/step_plan.h"

namespace twin {

// How many sequences are in which state, and the latest request to be admitted for the first time.
struct Census {
  std::int32_t waiting = 0;
  std::int32_t running = 0;
  std::int32_t swapped = 0;
  std::int64_t newest_admitted = -1;
};

// Where StepBuilder::ScheduleDecodes stops.
struct DecodeLimits {
  std::int32_t computed_max = std::numeric_limits<std::int32_t>::max();  // tokens of one sequence
  std::int32_t free_blocks_min = 0;  // before each sequence, needed by it or not
};

// Applies each call to the sequences and the KV pool at once, writes it into the plan, and checks
// the invariants that concern it (throws InvariantViolation).
// Calls that take a sequence spare the look-up; it must be one that sequence() showed.
// Borrows everything for the duration of one Policy::Plan call.
class StepBuilder {
 public:
  StepBuilder(TimePoint now, const PolicyTraits& traits, SequenceTable& sequences, KvPool& pool,
              Census& census, StepPlan& plan)
      : now_(now),
        traits_(traits),
        sequences_(sequences),
        pool_(pool),
        census_(census),
        plan_(plan) {}

  [[nodiscard]] TimePoint now() const { return now_; }
  [[nodiscard]] const Sequence& sequence(RequestId id) const { return sequences_[id]; }
  [[nodiscard]] const KvPool& pool() const { return pool_; }
  [[nodiscard]] const StepPlan& plan() const { return plan_; }

  // The sequence leaves the waiting state. What it holds is then the business of Grow and Reserve.
  void Admit(RequestId id);

  // Makes the sequence's blocks cover `tokens` tokens; false, and nothing changed, if they do not
  // fit. Taking less than it holds is no change.
  [[nodiscard]] bool Grow(const Sequence& sequence, std::int32_t tokens) {
    return tokens <= sequence.blocks.capacity_tokens || GrowSlowly(Mutable(sequence), tokens);
  }
  [[nodiscard]] bool Grow(RequestId id, std::int32_t tokens) {
    return Grow(sequences_[id], tokens);
  }

  // Promises the sequence `blocks` further blocks; false if they are not free.
  [[nodiscard]] bool Reserve(RequestId id, std::int32_t blocks);

  // Puts the next `tokens` tokens of the sequence into the step. `padded_tokens` is the row length
  // that a padded batch charges, 0 for a ragged one.
  // REQUIRES: the sequence is running and its blocks cover the tokens.
  void Schedule(const Sequence& sequence, std::int32_t tokens, std::int32_t padded_tokens = 0);
  void Schedule(RequestId id, std::int32_t tokens, std::int32_t padded_tokens = 0) {
    Schedule(sequences_[id], tokens, padded_tokens);
  }

  // Schedules one token each for the longest run of leading `ids` that are plain decodes within the
  // limits: one known token left to compute, its block held or to be had; not in flight, or where
  // traits().overlaps_own_steps not certain_to_end(). Returns the length of the run. The same as
  // Grow and Schedule of one token for each, in a fraction of the time; where
  // traits().caches_prefixes, also as PublishPrefix of what is then computed and known.
  std::size_t ScheduleDecodes(std::span<const RequestId> ids, const DecodeLimits& limits = {});

  // Takes back a Schedule of this step. REQUIRES: the sequence is in the step's work.
  void Unschedule(RequestId id);

  // A finished row of a padded batch that is computed all the same.
  void PadRow(RequestId id, std::int32_t tokens);

  // Takes all memory away and makes the sequence wait; its tokens will be computed anew.
  void PreemptByRecompute(RequestId id);

  // Moves all blocks to the host; false, and nothing changed, if the swap space is too small.
  [[nodiscard]] bool SwapOut(RequestId id);
  // Moves them back; the sequence runs again. False, and nothing changed, if they do not fit.
  [[nodiscard]] bool SwapIn(RequestId id);

  // The request can never be served. REQUIRES: it is waiting or swapped out.
  void Reject(RequestId id, RejectReason reason);

  // Gives up the blocks of a finished sequence. Only where traits().defers_release.
  void Release(RequestId id);

  // The leading full blocks of the sequence that are cached, leaving one token to compute.
  [[nodiscard]] CacheHit LookupPrefix(RequestId id) const;
  // Starts an admitted sequence behind its first `blocks` cached blocks (0 is recorded as a miss).
  void AttachPrefix(RequestId id, std::int32_t blocks);
  // Publishes the keys of all full blocks among the first `tokens` tokens.
  void PublishPrefix(const Sequence& sequence, std::int32_t tokens) {
    PublishFull(Mutable(sequence), tokens);
  }

 private:
  // What policies hold are read-only views of this builder's own table.
  static Sequence& Mutable(const Sequence& s) { return const_cast<Sequence&>(s); }
  [[nodiscard]] bool GrowSlowly(Sequence& s, std::int32_t tokens);
  [[noreturn]] void RefuseItem(const Sequence& s, std::int32_t tokens) const;
  template <bool kOverlaps>
  std::size_t FillDecodes(std::span<const RequestId> ids, const DecodeLimits& limits,
                          std::span<WorkItem> items);
  void PublishFull(Sequence& s, std::int32_t tokens) {
    if (pool_.HasUnpublished(s.blocks, tokens)) {
      pool_.Publish(s.blocks, s.keys, pool_.FullBlocks(tokens));
    }
  }
  void LogRelease(RequestId id);

  TimePoint now_;
  const PolicyTraits& traits_;
  SequenceTable& sequences_;
  KvPool& pool_;
  Census& census_;
  StepPlan& plan_;
};

}  // namespace twin
