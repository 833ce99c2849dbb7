// A cost model by parts, fitted on measurements: tables of operations, scaled to whole steps.
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

// Formulae   gemm       factor(phase) x (layers[tokens] + head[rows of logits]) + base,
//                       both as computed: padded to a bucket where the device does that
//            attention  base + linear in prefill items, tokens, context and pairs, and in decodes
//                       and their context
//            other      factor x other[tokens as computed] + base
//            sampling   base + linear in rows of logits
//            build      base + linear in requests and tokens, + swaps at their measured rate
//            schedule, delivery (host)  likewise
// Range      one model on one device; Covers() says whether a step lies within what was measured.
// Error      of whole steps held out from the fit: printed by `twinserve fit` with every fit.
// Source     the profile that `twinserve profile` wrote; fit_cost.h turns it into coefficients.
// Cost       some table look-ups; constant in the batch, no allocation.
class FittedCost final : public StepCost {
 public:
  // Throws InputError (usage) if a coefficient is negative or not finite, or the model, its formats
  // or the split are not what was measured.
  FittedCost(const FittedCostConfig& config, const ModelSpec& model,
             const Parallelism& parallelism);

  [[nodiscard]] Duration HostTime(const StepPlan& plan) const override;
  void DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) const override;
  [[nodiscard]] std::optional<StepParts> Parts(const StepPlan& plan) const override;
  [[nodiscard]] bool Covers(const StepTotals& totals) const override;

 private:
  [[nodiscard]] StepParts PartsOf(const StepPlan& plan) const;

  FittedCostConfig config_;
  FeatureExtractor features_;
  CostTable gemm_layers_;
  CostTable gemm_head_;
  CostTable other_;
  SwapCost swap_;
};

}  // namespace twin::sim
