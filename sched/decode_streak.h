// Decode streaks: steps that each compute the next token of the same requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.h"
#include "core/periodic_members.h"
#include "sched/policy/policy.h"
#include "sched/sequence.h"
#include "sched/step_builder.h"
#include "sched/step_plan.h"

namespace twin {

// Plans the steps of a streak in place of the policy, which has promised that it would plan the
// same (Policy::DecodeStreakLimits). Cost of a step: the sequences that need a block, and one
// addition per sequence for its work item. The counters of the sequences are written when the
// streak ends.
//
// Why a streak breaks no invariant (docs/INVARIANTS.md): the step before it was checked, with the
// same items one token earlier. I2, I3: an item reaches the latest token, known or pending, and
// every step moves both by one. I4: PeriodicMembers finds each sequence whose blocks do not cover
// its next token. I5: a step has the same requests as the step before; if that one is still in
// flight, the policy overlaps its own steps.
class DecodeStreak {
 public:
  // Whether a streak can follow the plan: it gives every running request a token, and otherwise
  // only admits requests and takes blocks.
  [[nodiscard]] static bool CanFollow(const StepPlan& plan) {
    const auto items = static_cast<std::int64_t>(plan.work.size());
    return items > 0 && plan.totals.emitting_items == items && plan.running == items &&
           plan.totals.draft_items == 0 && plan.resumed.empty() && plan.preempted.empty() &&
           plan.released.empty() && plan.rejected.empty();
  }

  // Whether a plan that a streak can follow holds requests that the one before it did not.
  [[nodiscard]] static bool Admits(const StepPlan& plan) {
    return plan.totals.prefill_items > 0 || !plan.admitted.empty();
  }

  [[nodiscard]] bool open() const { return !members_.empty(); }

  // Begins after `plan`, the latest one; `reversals` as Policy::DecodeStreakReversals(). The
  // members are the requests of the plan that go on: not those that have ended since, nor with
  // limits.after_ends those whose last tokens are in flight. Without any, no streak begins.
  // REQUIRES: CanFollow(plan), or it is of a streak; no streak is open, no other step is in flight,
  // and nothing else has happened since.
  void Open(const StepPlan& plan, const DecodeLimits& limits,
            std::span<const std::int32_t> reversals, const StepBuilder& step,
            SequenceTable& sequences);

  // Whether a member may get no further token in this streak.
  [[nodiscard]] bool reaches_limit() const { return planned_ >= steps_max_; }
  // Whether the step, which is in flight, has items of requests that are no members.
  [[nodiscard]] bool HasOthers(const StepPlan& plan) const {
    return has_others_ && plan.id == followed_;
  }
  // In the order of the steps, unless the streak has reversals.
  [[nodiscard]] std::span<Sequence* const> members() const { return members_; }

  // Plans the step after `latest` into `plan`, which may be `latest` itself; it takes over
  // `releases` as its first operations. Returns false if no streak is open, a sequence reaches a
  // limit, the policy ends the streak, or blocks run short: then the policy decides, and the
  // contents of `plan` are void. REQUIRES: step.plan() is `plan`.
  [[nodiscard]] bool PlanNext(Policy& policy, StepBuilder& step, const StepPlan& latest,
                              std::vector<KvOperation>& releases, StepPlan& plan);

  // How many further steps can be planned by RepeatWork and TakeBlocks without asking the policy,
  // whatever their blocks; 0 if the policy has a part in each step.
  [[nodiscard]] std::int64_t StepsLeft(const KvPool& pool) const;
  // Takes the blocks of the next step and publishes new keys. REQUIRES: StepsLeft() > 0.
  void TakeBlocks(StepBuilder& step);
  // Writes items and totals of step `id` into `plan`, whose kv is empty then; `latest` is the step
  // before, or an earlier step of the streak, and may be `plan` itself.
  void RepeatWork(const StepPlan& latest, StepId id, StepPlan& plan) const;

  // A step of the streak, or the one before it, has returned as expected.
  void OnReturned() { ++returned_; }
  // A running sequence got a key, which the next step publishes if it is a member.
  void OnKey(const Sequence& sequence) {
    if (open() && !sequence.certain_to_end()) with_new_keys_.push_back(&sequence);
  }

  // Writes the counters of the sequences and ends the streak, if one is open. `latest` is the
  // latest step that was planned.
  void Close(StepId latest);

 private:
  [[nodiscard]] bool BlocksSuffice(const KvPool& pool) const;
  // Whether the step that the streak follows decodes one token of each member, and nothing else.
  [[nodiscard]] bool SameAsMembers(const StepPlan& followed) const {
    return !has_others_ && !Admits(followed);
  }
  // RepeatWork after another step.
  void PlanMembers(const StepPlan& latest, StepPlan& plan) const;
  // Calls visit(member) for the members that take a block, in the order of the step.
  template <class Visit>
  void ForEachGrowing(Visit visit);

  std::vector<Sequence*> members_;  // in the order of the step before; empty: no streak is open
  std::vector<std::int32_t> reversals_;
  std::vector<std::size_t> mirrored_;  // by member: its place in every other step, if they differ
  std::vector<std::size_t> due_;       // scratch of ForEachGrowing
  std::vector<const Sequence*> with_new_keys_;  // since the latest step
  std::vector<std::int32_t> first_grows_;       // by member: the step that takes a block, from 1
  PeriodicMembers growing_;                     // by these steps
  DecodeLimits limits_;
  StepId followed_{};           // the step that the streak follows
  bool has_others_ = false;     // that step has items of requests that are no members
  std::int64_t steps_max_ = 0;  // until a member reaches a limit
  std::int32_t planned_ = 0;
  std::int32_t returned_ = 0;  // since Open
};

}  // namespace twin
