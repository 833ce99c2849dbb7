// The cost of steps with speculative decoding: the proposer of the drafts takes time, too.
#pragma once

#include <cstdint>
#include <memory>

#include "sim/cost/step_cost.h"

namespace twin::sim {

// Time of the proposer of drafts.
struct ProposerCost {
  // Predicts a draft model's steps, of one stage; null: there is none.
  std::shared_ptr<const StepCost> model = nullptr;
  std::int32_t drafts = 0;  // of a request per step
  Duration per_step{0};     // beyond the draft model's time: n-grams, a head
  // Running requests, of the plan, from which on nothing is proposed; 0 = no such limit.
  std::int32_t off_from_running = 0;
};

// A step of the target model, followed on its last stage by the proposer. Verification is in the
// target's step: the plan's items hold the drafts. A draft model runs `drafts` passes after it:
//
//   first pass    the tokens of the step, so that its own KV cache follows (prompts, too)
//   other passes  one token of each request that emits, at the context that the step has reached
//
// Nothing is proposed in a step that emits nothing; the first pass takes place then, too. The
// proposer's time is the part `other`. Devices warm up by the target's plan.
// Cost of a call: with a draft model in proportion to the items of the step.
class DraftCost final : public StepCost {
 public:
  DraftCost(std::shared_ptr<const StepCost> target, ProposerCost proposer);

  [[nodiscard]] int stages() const override { return target_->stages(); }
  [[nodiscard]] Duration HostTime(const StepPlan& plan) const override {
    return target_->HostTime(plan);
  }
  void DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) const override;
  [[nodiscard]] bool remembers() const override { return target_->remembers(); }
  [[nodiscard]] Duration StageTime(const StepPlan& plan, int stage, TimePoint begin,
                                   const DeviceState& state) const override;
  [[nodiscard]] std::unique_ptr<StepTimer> Timer() const override;
  void Advance(const StepPlan& plan, TimePoint begin, TimePoint end,
               DeviceState& state) const override {
    target_->Advance(plan, begin, end, state);
  }
  [[nodiscard]] Duration DeliveryTime(const StepPlan& plan) const override {
    return target_->DeliveryTime(plan);
  }
  [[nodiscard]] std::optional<StepParts> Parts(const StepPlan& plan) const override;
  [[nodiscard]] std::optional<StepParts> Parts(const StepPlan& plan, TimePoint begin,
                                               const DeviceState& state) const override;
  [[nodiscard]] bool Covers(const StepTotals& totals) const override {
    return target_->Covers(totals);
  }
  [[nodiscard]] std::shared_ptr<const StepCost> Seeded(std::uint64_t seed) const override;

 private:
  class ReplicaTimer;

  [[nodiscard]] Duration ProposerTime(const StepPlan& plan) const;
  // By the times of the model's two kinds of passes: Duration(const StepTotals&).
  template <class First, class Other>
  [[nodiscard]] Duration ProposerTime(const StepPlan& plan, const First& first,
                                      const Other& other) const;

  std::shared_ptr<const StepCost> target_;
  ProposerCost proposer_;
};

}  // namespace twin::sim
