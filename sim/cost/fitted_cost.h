// A cost model by parts, fitted on measurements: tables of operations scaled to whole steps.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/model_spec.h"
#include "sim/cost/cost_table.h"
#include "sim/cost/fitted_config.h"
#include "sim/cost/step_cost.h"
#include "sim/cost/step_features.h"
#include "sim/cost/swap_cost.h"

namespace twin::sim {

// Formulas   gemm       factor(phase) x (layers[tokens] + head[rows of logits]) + base; tokens and
// rows
//                       as the device computes them (sched/computed_rows.h)
//            attention  base + linear in prefill items, tokens, context and pairs, and in decodes
//                       and their context
//            other      factor x other[tokens as computed] + base
//            sampling   base + linear in rows of logits
//            build      base + linear in requests and tokens, + swaps at their measured rate
//            schedule, delivery (host)  base + linear in requests and tokens
//            all parts x decode_slowdown (single-token steps) or prefill_slowdown (other steps)
// Range      one model on one device; Covers() says whether a step is within the measured range.
// Error      on whole steps held out from the fit, printed by `twinserve fit`.
// Source     the profile that `twinserve profile` writes; fit_cost.h computes the coefficients.
// Cost       a few table look-ups; constant in the batch, no allocation.
class FittedCost final : public StepCost {
 public:
  // Throws InputError (usage) if a coefficient is negative or not finite, or if the model, its
  // formats or the parallelism differ from what was measured.
  FittedCost(const FittedCostConfig& config, const ModelSpec& model,
             const Parallelism& parallelism);

  [[nodiscard]] Duration HostTime(const StepPlan& plan) const override;
  void DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) const override;
  [[nodiscard]] Duration DeliveryTime(const StepPlan& plan) const override;
  [[nodiscard]] std::optional<StepParts> Parts(const StepPlan& plan) const override;
  [[nodiscard]] bool Covers(const StepTotals& totals) const override;

 private:
  [[nodiscard]] double SlowdownOf(const StepTotals& totals) const;
  [[nodiscard]] StepParts PartsOf(const StepPlan& plan) const;

  FittedCostConfig config_;
  FeatureExtractor features_;
  CostTable gemm_layers_;
  CostTable gemm_head_;
  CostTable other_;
  SwapCost swap_;
};

}  // namespace twin::sim
