// A cost model from data sheets: every operation takes the longer of its compute time and its
// memory time, plus a latency; a pipeline stage takes the critical path through its operations.
//
// Idea: the roofline model (Williams, Waterman and Patterson, CACM 52(4), 2009). An operation with
// F flops that moves B bytes cannot finish before F / peak flops, nor before B / peak bandwidth.
// Real kernels reach a fraction of either peak, and every launch costs a few microseconds;
// fractions and latencies are part of a hardware file (sim/devices/hardware/), fitted once on
// public measurements. A step's operations follow from the model's shape (transformer_graph.h), so
// any model on any device can be predicted without measuring it.
//
// Easy to get wrong: decode GEMMs are bound by memory, so weights count once a step and not once a
// request. Prefill attention grows with (query, key) pairs, decode attention with keys read.
// Tensor-parallel ranks divide the widths but not the latencies. Grouped KV heads are replicated
// when there are more ranks than heads. A mixture reads the weights of the touched experts only,
// and its GEMMs are charged per expert. Launch latency, not arithmetic, dominates small batches.
#pragma once

#include <cstdint>
#include <memory>
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

// Formulas: transformer_graph.h. Assumptions about windows and experts: step_features.h. Padding
// counts as tokens in every operation except attention.
// Range   any model and device; accuracy depends on the achieved fractions in the hardware file.
// Error   of single operations: in the comments of the files in sim/devices/hardware/.
// Cost    a few multiplications per operation and stage; constant in the batch. Timer() computes a
//         step like the one before with those of one operation, without allocation.
class RooflineCost final : public StepCost {
 public:
  // `kv_block_bytes` is one rank's. Throws InputError (usage) if a spec or the split is invalid.
  RooflineCost(const RooflineCostConfig& config, const ModelSpec& model,
               const HardwareSpec& hardware, const Parallelism& parallelism,
               std::int64_t kv_block_bytes);

  [[nodiscard]] int stages() const override { return static_cast<int>(paths_.size()); }
  [[nodiscard]] Duration HostTime(const StepPlan& plan) const override;
  void DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) const override;
  // Computes the operations of which a number of rows, the chunks, or the context have changed.
  [[nodiscard]] std::unique_ptr<StepTimer> Timer() const override;
  // Sums the operations on the critical path by their part; swaps count as `build`. Allocates.
  [[nodiscard]] std::optional<StepParts> Parts(const StepPlan& plan) const override;

  // The operations of one stage for a step with these totals. The seconds of the operations on the
  // critical path sum to the stage's device time without swaps.
  [[nodiscard]] std::vector<OperationCost> Breakdown(const StepTotals& totals, int stage) const;

 private:
  class ReplicaTimer;

  RooflineCostConfig config_;
  FeatureExtractor features_;
  std::vector<CriticalPath> paths_;  // one per stage
  SwapCost swap_;
};

}  // namespace twin::sim
