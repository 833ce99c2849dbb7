// A cost model that is linear in a step's totals, such as a regression on measured steps gives.
#pragma once

#include <span>

#include "sim/cost/cost_traits.h"
#include "sim/cost/step_cost.h"
#include "sim/cost/swap_cost.h"

namespace twin::sim {

// Seconds on the device =
//   base + per_prefill_token x prefill tokens + per_decode_item x decodes
//        + per_decode_context_token x keys read by decodes + per_attention_pair x prefill pairs
//        + per_swapped_block x blocks swapped (+ swap_latency once).
// Padding is charged as prefill tokens in a step with prefill, and as decodes otherwise. The
// defaults describe no machine.
struct LinearCostConfig {
  static constexpr CostTraits kCostTraits = {
      .name = "linear", .has_proven_bounds = true, .takes_any_split = true};

  double host_s = 0;
  double host_per_item_s = 0;  // requests in the step
  double base_s = 0;
  double per_prefill_token_s = 0;
  double per_decode_item_s = 0;
  double per_decode_context_token_s = 0;
  double per_attention_pair_s = 0;
  double swap_latency_s = 0;
  double per_swapped_block_s = 0;

  bool operator==(const LinearCostConfig&) const = default;
};

// The device time is divided equally between the stages. Each stage copies its own part of swapped
// blocks, all stages at the same time.
class LinearCost final : public StepCost {
 public:
  // Throws InputError (usage) naming a coefficient that is negative or not finite, or if base_s,
  // per_prefill_token_s and per_decode_item_s are all 0.
  LinearCost(const LinearCostConfig& config, int stages);

  [[nodiscard]] int stages() const override { return stages_; }
  [[nodiscard]] Duration HostTime(const StepPlan& plan) const override;
  void DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) const override;

  // Device seconds of all stages, without swaps.
  [[nodiscard]] double DeviceSeconds(const StepTotals& totals) const;

 private:
  LinearCostConfig config_;
  SwapCost swap_;
  int stages_;
};

}  // namespace twin::sim
