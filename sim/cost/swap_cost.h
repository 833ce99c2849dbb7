// The time of copying KV blocks between device and host memory.
#pragma once

#include <cstdint>

#include "core/hardware_spec.h"
#include "sched/step_plan.h"

namespace twin::sim {

// Blocks that a plan swaps, in either direction. Takes constant time if the plan has neither a
// preemption by swapping nor a resumption, and otherwise time linear in its KV operations.
std::int64_t SwappedBlocks(const StepPlan& plan);

// Seconds = latency + blocks x seconds_per_block, spent before the step's work; 0 without swaps.
// The link transfers in one direction at a time.
class SwapCost {
 public:
  SwapCost() = default;
  SwapCost(double latency_s, double seconds_per_block)
      : latency_s_(latency_s), seconds_per_block_(seconds_per_block) {}
  // Over the device's link to its host; `block_bytes` are those of one rank.
  SwapCost(const HardwareSpec& hardware, std::int64_t block_bytes)
      : SwapCost(hardware.pcie_latency_s,
                 static_cast<double>(block_bytes) /
                     (hardware.pcie_bandwidth_bytes_per_s * hardware.pcie_bandwidth_fraction)) {}

  [[nodiscard]] double Seconds(const StepPlan& plan) const {
    if (plan.preempted.empty() && plan.resumed.empty()) return 0.0;
    const std::int64_t blocks = SwappedBlocks(plan);
    return blocks == 0 ? 0.0 : latency_s_ + static_cast<double>(blocks) * seconds_per_block_;
  }

 private:
  double latency_s_ = 0;
  double seconds_per_block_ = 0;
};

}  // namespace twin::sim
