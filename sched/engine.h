// The scheduler: a passive state machine that turns events into plans.
//
// An engine is told what happened (Handle) and asked what to do next (PlanStep). It keeps the
// requests (sequences), the KV block pool and one policy; the policy decides, and the engine
// applies its decisions and checks them against the invariants (docs/INVARIANTS.md). Simulated and
// real runs drive the same engine through the same loop (sched/serve.h): they differ in when events
// come. Equal calls give equal plans, so a recorded run can be decided again.
//
// A request's progress is three counters (sched/sequence.h): `known` tokens are its prompt and the
// output that has returned; `computed` tokens have their keys and values in the cache once all
// issued steps have ended; `pending` output tokens are issued and not yet returned.
//
// Easy to get wrong:
// - `computed` grows when a step is planned, not when it returns: the next step can be planned
//   while this one runs.
// - Blocks released by a finish are free at once, but the executor learns of it with the next plan.
// - A cancelled or preempted request can still be in a step in flight. Its blocks stay until that
//   step returns if it was cancelled, unless the policy frees_in_flight; tokens that return after a
//   preemption are kept.
// - Steps that only decode come in streaks in which the policy is not asked and the counters of the
//   sequences stand still (decode_streak.h).
// - Drafts count as computed and as pending until the step that verifies them returns, which takes
//   back what was rejected. Blocks taken for them stay with the sequence.
// - A request that only prefills here ends with its first token. Its blocks stay, under a hold of
//   their own, until their keys and values have reached the replica that decodes it.
// - Prompts beyond prompt_tokens_max never reach the policy: the next plan rejects them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/id_map.h"
#include "core/ids.h"
#include "core/time.h"
#include "sched/cache/group_tables.h"
#include "sched/cache/kv_pool.h"
#include "sched/decode_streak.h"
#include "sched/engine_config.h"
#include "sched/event.h"
#include "sched/handover.h"
#include "sched/policy/policy.h"
#include "sched/sequence.h"
#include "sched/step_builder.h"
#include "sched/step_plan.h"
#include "sched/streak_part.h"

namespace twin {

// The limits on which numbers of blocks of KV groups depend, under a policy with the traits.
[[nodiscard]] GroupLimits GroupLimitsOf(const PolicyTraits& traits);

// Throws InputError (usage) unless a policy with the traits serves a model of these groups, and a
// pool of `blocks` blocks holds a sequence of its longest length.
void ValidateKvGroups(const KvGroups& groups, const PolicyTraits& traits, std::int32_t blocks);

// Owns the sequences, the KV block pool and the policy. Not thread-safe. After warm-up no call
// allocates, except for the prefix keys of a request.
class Engine {
 public:
  // Throws InputError where ValidateKvGroups does for the policy.
  Engine(const EngineConfig& config, std::unique_ptr<Policy> policy);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // REQUIRES: the order of events in event.h.
  void Handle(const Event& event);

  // The next step, or nullptr if there is nothing to do until the next event. The plan stays valid
  // until its StepFinished has been handled. Throws InvariantViolation.
  const StepPlan* PlanStep(TimePoint now);

  // How many further steps of a decode streak the engine can plan one after the other, each when
  // the oldest step in flight has returned; 0 if no streak goes on, or the policy must be asked.
  [[nodiscard]] std::int64_t StreakStepsLeft() const;
  // Handle() and PlanStep() for each moment of the part, whose plans it adds. REQUIRES: nothing was
  // handled or planned since StreakStepsLeft(), and at most so many moments.
  void Continue(StreakPart& part);
  // The plan that was handed out last. REQUIRES: one was, and its step is in flight.
  [[nodiscard]] const StepPlan& LatestPlan() const { return PlanOf(StepId{Index(next_step_) - 1}); }

  // When the engine must plan again even if nothing happens; kTimeNever if it need not.
  [[nodiscard]] TimePoint wake_at() const { return wake_at_; }

  [[nodiscard]] const KvPool& pool() const { return pool_; }
  // nullptr if sequences have one table of blocks.
  [[nodiscard]] const GroupTables* group_tables() const { return groups_ ? &*groups_ : nullptr; }
  [[nodiscard]] const Policy& policy() const { return *policy_; }
  // Ends a decode streak, so that all counters are up to date: not for every step.
  [[nodiscard]] const SequenceTable& sequences();
  [[nodiscard]] const Census& census() const { return census_; }
  [[nodiscard]] std::int32_t steps_in_flight() const { return in_flight_; }
  // REQUIRES: the step is in flight.
  [[nodiscard]] const StepPlan& PlanOf(StepId step) const;

  // For clusters that separate prefill from decode (disaggregation.h). What happened since the
  // caller last cleared the list: requests that have computed their prompts here, and requests for
  // whose keys and values blocks were taken.
  [[nodiscard]] std::vector<Handover>& handovers() { return handovers_; }
  [[nodiscard]] std::vector<Reservation>& reservations() { return reservations_; }
  // A request that another replica has prefilled. It waits; the policy takes blocks for it
  // (StepBuilder::AwaitTransfer). REQUIRES: traits().receives_kv.
  void Receive(const Request& request, const Handover& handover);
  // Blocks held for another replica, and blocks taken for a request that arrives from one; valid
  // until they are released.
  [[nodiscard]] std::span<const BlockId> HeldBlocks(RequestId id) const;
  [[nodiscard]] std::span<const BlockId> TakenBlocks(RequestId id) const;
  // The held blocks are no longer needed. REQUIRES: HeldBlocks(id) is not empty.
  void ReleaseHeld(RequestId id);

  // Throws InvariantViolation (I11) unless every request has left and every block is back.
  void CheckDrained() const;
  // Recounts the KV pool from the block tables, and looks for blocks missing in them (I4). Cost:
  // all blocks and sequences.
  void CheckMemory() const;

 private:
  void OnStepFinished(const StepFinished& finished);
  void OnCancelled(const RequestCancelled& cancelled);
  void OnArrived(const RequestArrived& arrived);
  void OnTransferFinished(const TransferFinished& finished);
  // Sets up a waiting sequence.
  void SetUp(Sequence& sequence, const Request& request, std::span<const BlockKey> keys);
  void HandOver(Sequence& sequence);
  void EndSequence(Sequence& sequence);
  // A returned token was its last one.
  void EndReturned(Sequence& sequence);
  // Applies a returned step item by item.
  void ApplyItems(const StepPlan& plan, const StepFinished& finished);
  // Tells the tables of KV groups what a returned step has computed.
  void TellTables(const StepPlan& plan);
  // Applies a returned item that is more than one further token of a running sequence.
  void ApplyOutcome(Sequence& sequence, const WorkItem& item, const ItemOutcome& outcome);
  // Takes back the drafts that were rejected, and stores the drafts offered for the next item.
  void TakeDrafts(Sequence& sequence, const WorkItem& item, const ItemOutcome& outcome) const;
  void PublishReturned(Sequence& sequence);
  void ReleaseCollected();
  void ReleaseBlocks(Sequence& sequence);
  void CloseIfDone(Sequence& sequence);
  void CheckPlan(const StepPlan& plan) const;
  // Writes the state of the pool and the number of requests into the plan.
  void WriteState(StepPlan& plan, std::int32_t free_blocks) const;
  // Plans the next step of a decode streak; false if the policy must decide.
  [[nodiscard]] bool PlanStreak(StepBuilder& builder, StepPlan& plan);
  // Lets the policy plan the step; false if there is nothing to do.
  [[nodiscard]] bool PlanByPolicy(StepBuilder& builder, StepPlan& plan);
  void EndStreak();
  [[nodiscard]] bool SomebodyWaits() const {
    return census_.waiting + census_.swapped + census_.arriving > 0;
  }
  // Applies a returned step of the streak that has items of requests that are no members.
  void ApplyWithOthers(const StepPlan& plan, const StepFinished& finished);
  // Ends the streak before members end; another one may follow.
  void CloseForEnds();
  // A member's last token has returned.
  void EndMember(Sequence& sequence);
  void TakeKey(const BlockFilled& filled);
  // Writes the plans of the part that are in flight now. `free_blocks`: before the part.
  void PlacePlans(const StreakPart& part, std::int32_t free_blocks);
  // The place of the step's plan. Steps that return in order take the slots in turn.
  [[nodiscard]] StepPlan& Slot(StepId step) { return plans_[Index(step) % plans_.size()]; }
  [[nodiscard]] StepPlan& FreeSlot();
  [[nodiscard]] const StepPlan& Returned(StepId step);
  void CountReturned();

  SequenceTable sequences_;
  KvPool pool_;
  std::optional<GroupTables> groups_;
  std::unique_ptr<Policy> policy_;
  PolicyTraits traits_;
  std::int32_t servable_tokens_;  // of a StepBuilder
  std::int32_t plans_per_instant_max_;
  std::int32_t prompt_tokens_max_;
  std::int32_t replica_;
  Census census_;
  std::vector<StepPlan> plans_;        // one slot per step that may be in flight
  std::vector<bool> taken_;            // by slot, where steps return in any order
  std::vector<KvOperation> releases_;  // by finishes since the last plan; part of the next one
  std::vector<RequestId> too_long_;    // arrived, to be rejected by the next plan
  std::vector<RequestId> collected_;   // scratch of ReleaseCollected
  // Blocks of requests that have left and whose keys and values another replica needs.
  IdMap<BlockTable> held_;
  std::vector<Handover> handovers_;
  std::vector<Reservation> reservations_;
  DecodeStreak streak_;
  StepPlan part_plan_;             // scratch of Continue
  std::vector<RequestId> others_;  // scratch of ApplyWithOthers
  // True if a streak can follow the latest plan, and nothing unexpected has happened since.
  bool streak_can_begin_ = false;
  // True if requests have ended since then, which counts as expected.
  bool streak_has_ends_ = false;
  bool receives_ = false;  // copies of keys and values come into the pool
  StepId next_step_{1};
  StepId oldest_in_flight_{1};
  std::int32_t in_flight_ = 0;
  TimePoint planned_at_ = TimePoint::min();
  TimePoint wake_at_ = kTimeNever;
  std::int32_t plans_this_instant_ = 0;
};

}  // namespace twin
