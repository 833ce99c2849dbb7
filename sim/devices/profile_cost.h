// A cost model from profiles of devices: measured tables and closed forms of operations, assembled
// to steps, with the visible part of the host's time and the state of the device.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "core/hardware_spec.h"
#include "core/model_spec.h"
#include "sim/cost/step_cost.h"
#include "sim/cost/swap_cost.h"
#include "sim/devices/profile_config.h"
#include "sim/devices/step_model.h"

namespace twin::sim {

// Formulas  step_model.h; host time = host_s + host_per_item_s x requests.
// Range     any model and device; each prediction of an operation carries its own spread.
// Cost      a few table look-ups and closed forms a step; constant in the batch. The first step of
//           each number of rows computes its operations; Timer() computes the attention of a step
//           like the one before, and takes all else from there.
class ProfileCost final : public StepCost {
 public:
  // `kv_block_bytes` is one rank's; `stages` as in StepModel. Throws InputError (usage) if a spec,
  // a term or the split is invalid.
  ProfileCost(const ProfileCostConfig& config, const ModelSpec& model, const HardwareSpec& hardware,
              const Parallelism& parallelism, std::int64_t kv_block_bytes,
              StageCache* stages = nullptr);

  [[nodiscard]] int stages() const override { return model_.stages(); }
  [[nodiscard]] Duration HostTime(const StepPlan& plan) const override;
  void DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) const override;

  [[nodiscard]] bool remembers() const override { return true; }
  [[nodiscard]] Duration StageTime(const StepPlan& plan, int stage, TimePoint begin,
                                   const DeviceState& state) const override;
  [[nodiscard]] std::unique_ptr<StepTimer> Timer() const override;
  void Advance(const StepPlan& plan, TimePoint begin, TimePoint end,
               DeviceState& state) const override;

  // Parts on rested devices; swaps count as `build`, gaps as `other`.
  [[nodiscard]] std::optional<StepParts> Parts(const StepPlan& plan) const override;
  [[nodiscard]] std::optional<StepParts> Parts(const StepPlan& plan, TimePoint begin,
                                               const DeviceState& state) const override;

  // True if products of as many rows, and attention over contexts as long, were measured in some
  // shape.
  [[nodiscard]] bool Covers(const StepTotals& totals) const override {
    return totals.tokens() <= rows_max_ && totals.prefill_context_max <= prefill_context_max_ &&
           totals.decode_context_max <= decode_context_max_;
  }

  [[nodiscard]] const StepModel& model() const { return model_; }

 private:
  class ReplicaTimer;

  [[nodiscard]] StepParts PartsOf(const StepPlan& plan, int stage, double heat,
                                  double last_step) const;
  // The sum of PartsOf. `known`: as in StepModel.
  [[nodiscard]] Duration TimeOf(const StepPlan& plan, int stage, TimePoint begin,
                                const DeviceState& state, StepModel::Known& known) const;

  StepModel model_;
  SwapCost swap_;
  std::int64_t rows_max_;
  std::int64_t prefill_context_max_;
  std::int64_t decode_context_max_;
};

// Throws InputError (usage) if the ranks cannot hold whole experts as the config asks.
void Validate(const ProfileCostConfig& config, const ModelSpec& model,
              const Parallelism& parallelism);

// The terms of the config's profile with the config's own laid over them. Throws InputError (usage)
// if a term is negative or not finite, or tau is 0.
StepTerms StepTermsOf(const ProfileCostConfig& config, const HardwareSpec& hardware);

// The part of the config that a step model needs. Throws as StepTermsOf.
StepModelConfig StepModelConfigOf(const ProfileCostConfig& config, const HardwareSpec& hardware);

}  // namespace twin::sim
