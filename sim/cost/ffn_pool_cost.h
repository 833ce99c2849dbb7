// A cost model of a replica whose FFNs run on devices of their own: the times of its two kinds of
// devices come from two inner models, which may be of different hardware, and the time of the step
// from the pipe between them (ffn_pool_pipeline.h).
//
// Easy to get wrong: attention reads the cache of its own requests alone, while an FFN device gets
// the rows of all attention groups. A link is as slow as its busier end. A step of fewer tokens
// than micro-batches has fewer of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/hardware_spec.h"
#include "core/model_spec.h"
#include "sim/cost/cost_config.h"
#include "sim/cost/ffn_pool_config.h"
#include "sim/cost/ffn_pool_pipeline.h"
#include "sim/cost/step_cost.h"
#include "sim/cost/swap_cost.h"

namespace twin::sim {

// The attention devices of a replica.
struct AttentionSide {
  ModelSpec model;  // the whole model
  HardwareSpec hardware;
  Parallelism parallelism;  // of an attention group
  CostConfig cost;
  std::int64_t kv_block_bytes = 0;  // one rank's
};

// Makes the inner models, as MakeStepCost() does.
using CostMaker = std::function<std::shared_ptr<const StepCost>(
    const CostConfig& config, const ModelSpec& model, const HardwareSpec& hardware,
    const Parallelism& parallelism, std::int64_t kv_block_bytes)>;

// A step as its pipe sees it.
struct FfnPoolStep {
  std::vector<FfnPoolLayer> layers;  // of a micro-batch
  FfnPoolPipe pipe;
  Duration ends{0};  // embedding, head and sampling, and what a step costs beside its layers
};

// Micro-batches are equal, and as large as the largest of them; requests are spread evenly over the
// attention groups. A layer's time is the mean difference between stacks of 2 n and of n layers,
// which contains neither embedding nor head. Devices are taken as rested.
// Range   models whose layers have attention and an MLP; inner models that know any model shape.
// Cost    that of four inner steps or more; constant in the batch.
class FfnPoolCost final : public StepCost {
 public:
  // Throws InputError (usage) as ValidateSplit(), or if an inner model refuses its part.
  FfnPoolCost(const AttentionSide& attention, const FfnPoolConfig& ffn, const CostMaker& make);

  [[nodiscard]] Duration HostTime(const StepPlan& plan) const override {
    return models_.front()->HostTime(plan);
  }
  void DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) const override;
  [[nodiscard]] std::unique_ptr<StepTimer> Timer() const override;
  [[nodiscard]] Duration DeliveryTime(const StepPlan& plan) const override {
    return models_.front()->DeliveryTime(plan);
  }
  [[nodiscard]] bool Covers(const StepTotals& totals) const override;

  // The step of a plan with these totals. REQUIRES: it has tokens.
  [[nodiscard]] FfnPoolStep StepOf(const StepTotals& totals) const;

 private:
  class ReplicaTimer;

  // Two stacks of equal layers, as indices of models_.
  struct Stack {
    std::int32_t layers = 1;  // of the smaller one
    std::size_t once = 0;
    std::size_t twice = 0;
    double rows_per_token = 1;  // of FFNs
  };
  struct Run {
    std::int32_t layers = 1;
    Stack attention;
    std::vector<Stack> ffn;
    double visited = 1;  // FFN devices, by a token
  };
  // Seconds of a byte of a token that visits one device: at the sender for each of a group's
  // tokens, and at the receiver for each of the replica's.
  struct Link {
    double group_token_s = 0;
    double token_s = 0;
  };

  Stack AddStack(const CostMaker& make, const CostConfig& config, const HardwareSpec& hardware,
                 const Parallelism& parallelism, std::int32_t layers,
                 const std::function<ModelSpec(std::int32_t)>& model);
  template <class Models>
  [[nodiscard]] Duration TimeOfStep(const StepTotals& totals, const Models& models) const;
  template <class Models>
  [[nodiscard]] FfnPoolLayer LayerOf(const Run& run, const StepTotals& totals,
                                     std::int32_t micro_batches, const Models& models) const;
  template <class Models>
  [[nodiscard]] Duration EndsOf(const StepTotals& totals, std::int32_t micro_batches,
                                const Models& models) const;
  [[nodiscard]] FfnPoolPipe PipeOf(const StepTotals& totals) const;

  std::int32_t attention_groups_;
  FfnPoolPipe pipe_;
  double hidden_;
  Link link_;
  SwapCost swap_;
  std::vector<Run> runs_;  // of equal layers, in order
  std::vector<std::shared_ptr<const StepCost>> models_;
};

// The totals of the largest of `micro_batches` shares of the busiest of `groups` attention groups.
// Requests are divided between groups, and tokens between micro-batches: a chunk that is cut reads
// its keys once for each piece.
StepTotals ShareOfAttention(const StepTotals& totals, std::int32_t groups,
                            std::int32_t micro_batches);

}  // namespace twin::sim
