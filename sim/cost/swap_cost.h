// The time that a plan's copies between device and host memory take.
#pragma once

#include <cstdint>

#include "sched/step_plan.h"

namespace twin::sim {

// Blocks that a plan swaps, in either direction. Constant time unless the plan swaps: every swap
// shows as a preemption by swapping or as a resumption, else linear in the KV operations.
std::int64_t SwappedBlocks(const StepPlan& plan);

// Seconds = latency + blocks x seconds_per_block, before the step's work; 0 without swaps. The link
// serves one direction at a time.
class SwapCost {
 public:
  SwapCost() = default;
  SwapCost(double latency_s, double seconds_per_block)
      : latency_s_(latency_s), seconds_per_block_(seconds_per_block) {}

  [[nodiscard]] double Seconds(const StepPlan& plan) const {
    const std::int64_t blocks = SwappedBlocks(plan);
    return blocks == 0 ? 0.0 : latency_s_ + static_cast<double>(blocks) * seconds_per_block_;
  }

 private:
  double latency_s_ = 0;
  double seconds_per_block_ = 0;
};

}  // namespace twin::sim
