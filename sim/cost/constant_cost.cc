#include "sim/cost/constant_cost.h"

#include <algorithm>

#include "core/input_error.h"

namespace twin::sim {

ConstantCost::ConstantCost(const ConstantCostConfig& config, int stages)
    : host_time_(config.host_time), stage_time_(config.step_time / stages), stages_(stages) {
  if (config.host_time < Duration::zero() || config.step_time < Duration::zero()) {
    throw InputError(InputError::Kind::kUsage, "cost.constant",
                     "host_s or step_s is negative; allowed: 0 or more");
  }
}

Duration ConstantCost::HostTime(const StepPlan&) const { return host_time_; }

void ConstantCost::DeviceTimes(const StepPlan&, std::span<Duration> stage_times) const {
  std::fill(stage_times.begin(), stage_times.end(), stage_time_);
}

}  // namespace twin::sim
