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

  // Begins after `plan`, the latest one; `reversals` as Policy::DecodeStreakReversals(). REQUIRES:
  // CanFollow(plan), no streak is open, no other step is in flight, and nothing unexpected has
  // happened since.
  void Open(const StepPlan& plan, const DecodeLimits& limits,
            std::span<const std::int32_t> reversals, std::int32_t block_size,
            SequenceTable& sequences);

  // Plans the step after `latest` into `plan`, which may be `latest` itself. Returns false if a
  // sequence reaches a limit, the policy ends the streak, or blocks run short: then the policy
  // decides, and the contents of `plan` are void. REQUIRES: open(); step.plan() is `plan`.
  [[nodiscard]] bool PlanNext(Policy& policy, StepBuilder& step, const StepPlan& latest,
                              StepPlan& plan);

  // A step of the streak, or the one before it, has returned as expected.
  void OnReturned() { ++returned_; }
  // A sequence of the latest plan got a key, which the next step publishes; also before Open.
  void OnKey(const Sequence& sequence) { with_new_keys_.push_back(&sequence); }

  // Writes the counters of the sequences and ends the streak, if one is open. `latest` is the
  // latest step that was planned.
  void Close(StepId latest);

 private:
  [[nodiscard]] bool BlocksSuffice(const KvPool& pool) const;
  void RepeatWork(const StepPlan& latest, StepPlan& plan) const;
  // RepeatWork after a step that Admits.
  static void RepeatWithAdmitted(const StepPlan& latest, StepPlan& plan);
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
  std::int64_t steps_max_ = 0;  // until a member reaches a limit
  std::int32_t planned_ = 0;
  std::int32_t returned_ = 0;  // since Open
};

}  // namespace twin
