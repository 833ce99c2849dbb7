// A cost model from first principles: every operation takes the larger of its compute and memory
// time at the rates that the hardware achieves, plus its latency; a stage takes its critical path.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/hardware_spec.h"
#include "core/model_spec.h"
#include "sim/cost/operation_graph.h"
#include "sim/cost/roofline_config.h"
#include "sim/cost/step_cost.h"
#include "sim/cost/step_features.h"
#include "sim/cost/swap_cost.h"

namespace twin::sim {

// Formulae: transformer_graph.h; assumptions about windows and experts: step_features.h. Padding
// counts as tokens in every operation but attention.
// Range   any model and device; the achieved fractions of the hardware file set its accuracy.
// Error   of single operations: the comments of sim/hardware/ say what the fits left.
// Cost    a few multiplications per operation and stage; constant in the batch, no allocation.
class RooflineCost final : public StepCost {
 public:
  // `kv_block_bytes` is one rank's. Throws InputError (usage) if a spec or the split is invalid.
  RooflineCost(const RooflineCostConfig& config, const ModelSpec& model,
               const HardwareSpec& hardware, const Parallelism& parallelism,
               std::int64_t kv_block_bytes);

  [[nodiscard]] int stages() const override { return static_cast<int>(paths_.size()); }
  [[nodiscard]] Duration HostTime(const StepPlan& plan) const override;
  void DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) const override;
  // By the names of the operations on the critical path; swaps as `build`. Allocates.
  [[nodiscard]] std::optional<StepParts> Parts(const StepPlan& plan) const override;

  // The operations of one stage for a step with these totals. The seconds of those on the critical
  // path add up to the stage's device time without swaps.
  [[nodiscard]] std::vector<OperationCost> Breakdown(const StepTotals& totals, int stage) const;

 private:
  RooflineCostConfig config_;
  FeatureExtractor features_;
  std::vector<CriticalPath> paths_;  // one per stage
  SwapCost swap_;
};

}  // namespace twin::sim
