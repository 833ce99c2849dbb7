// A cost model in which every step takes the same time: for examples, tests and unit-time runs.
#pragma once

#include <span>

#include "sim/cost/cost_traits.h"
#include "sim/cost/step_cost.h"

namespace twin::sim {

struct ConstantCostConfig {
  static constexpr CostTraits kCostTraits = {
      .name = "constant", .has_proven_bounds = true, .takes_any_split = true};

  Duration host_time{0};
  Duration step_time = std::chrono::milliseconds(10);  // on the device, all stages together

  bool operator==(const ConstantCostConfig&) const = default;
};

// Every step takes `step_time`, divided equally between the stages. Swaps cost nothing.
class ConstantCost final : public StepCost {
 public:
  ConstantCost(const ConstantCostConfig& config, int stages);

  [[nodiscard]] int stages() const override { return stages_; }
  [[nodiscard]] Duration HostTime(const StepPlan& plan) const override;
  void DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) const override;

 private:
  Duration host_time_;
  Duration stage_time_;
  int stages_;
};

}  // namespace twin::sim
