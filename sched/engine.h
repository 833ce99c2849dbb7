// The decisions: a passive state machine; equal calls give equal plans.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/ids.h"
#include "core/time.h"
#include "sched/cache/kv_pool.h"
#include "sched/event.h"
#include "sched/policy/policy.h"
#include "sched/sequence.h"
#include "sched/step_builder.h"
#include "sched/step_plan.h"

namespace twin {

struct EngineConfig {
  KvPoolConfig kv;
  // Plans handed out per instant; 0 = as many as may be in flight.
  std::int32_t plans_per_instant_max = 0;
  // Longer prompts are rejected before the policy hears of them; 0 = no limit.
  std::int32_t prompt_tokens_max = 0;
};

// Owns the sequences, the KV block pool and one policy. Reads no clock, touches no device.
// Not thread-safe. After warm-up no call allocates, except where a request brings prefix keys.
class Engine {
 public:
  Engine(const EngineConfig& config, std::unique_ptr<Policy> policy);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // REQUIRES: events come in an order that a World may tell them in (event.h).
  void Handle(const Event& event);

  // The next step, or nullptr if nothing is to be done until something happens. The plan stays
  // valid until its StepFinished has been handled. Throws InvariantViolation.
  const StepPlan* PlanStep(TimePoint now);

  [[nodiscard]] const KvPool& pool() const { return pool_; }
  [[nodiscard]] const Policy& policy() const { return *policy_; }
  [[nodiscard]] const SequenceTable& sequences() const { return sequences_; }
  [[nodiscard]] const Census& census() const { return census_; }
  [[nodiscard]] std::int32_t steps_in_flight() const { return in_flight_; }

  // Throws InvariantViolation (I11) unless every request has left and every block is back.
  void CheckDrained() const;
  // Recounts the KV pool from the block tables (I4). Cost: all blocks and sequences.
  void CheckMemory() const;

 private:
  void OnStepFinished(const StepFinished& finished);
  void OnCancelled(const RequestCancelled& cancelled);
  void OnArrived(const RequestArrived& arrived);
  void EndSequence(Sequence& sequence);
  // What a returned item means where it is more than one further token for a running sequence.
  void Settle(Sequence& sequence, const WorkItem& item, const ItemOutcome& outcome);
  void PublishReturned(Sequence& sequence);
  void ReleaseCollected();
  void ReleaseBlocks(Sequence& sequence);
  void CloseIfDone(Sequence& sequence);
  void CheckPlan(const StepPlan& plan) const;
  [[nodiscard]] StepPlan& Slot(StepId step) { return plans_[Index(step) % plans_.size()]; }

  SequenceTable sequences_;
  KvPool pool_;
  std::unique_ptr<Policy> policy_;
  PolicyTraits traits_;
  std::int32_t plans_per_instant_max_;
  std::int32_t prompt_tokens_max_;
  Census census_;
  std::vector<StepPlan> plans_;        // a ring, one slot per step that may be in flight
  std::vector<KvOperation> releases_;  // by finishes since the last plan, told with the next one
  std::vector<RequestId> too_long_;    // arrived, to be rejected by the next plan
  std::vector<RequestId> collected_;   // scratch of ReleaseCollected
  StepId next_step_{1};
  StepId oldest_in_flight_{1};
  std::int32_t in_flight_ = 0;
  TimePoint planned_at_ = TimePoint::min();
  std::int32_t plans_this_instant_ = 0;
};

}  // namespace twin
