#include "sim/cost/step_cost.h"

#include <fmt/format.h>

#include <cstddef>
#include <vector>

#include "core/input_error.h"

namespace twin::sim {
namespace {

class PlainTimer final : public StepTimer {
 public:
  explicit PlainTimer(const StepCost& cost) : cost_(cost) {}

  void DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) override {
    cost_.DeviceTimes(plan, stage_times);
  }
  [[nodiscard]] Duration StageTime(const StepPlan& plan, int stage, TimePoint begin,
                                   const DeviceState& state) override {
    return cost_.StageTime(plan, stage, begin, state);
  }

 private:
  const StepCost& cost_;
};

}  // namespace

void RefuseCost(std::string_view model, double seconds) {
  throw InputError(InputError::Kind::kUsage, std::string(model),
                   fmt::format("predicts {} s for one step; allowed: 0 to {} s; check its "
                               "coefficients and the size of the step",
                               seconds, kStepSecondsMax));
}

Duration StepCost::StageTime(const StepPlan& plan, int stage, TimePoint /*begin*/,
                             const DeviceState& /*state*/) const {
  std::vector<Duration> times(static_cast<std::size_t>(stages()));
  DeviceTimes(plan, times);
  return times.at(static_cast<std::size_t>(stage));
}

std::unique_ptr<StepTimer> StepCost::Timer() const { return std::make_unique<PlainTimer>(*this); }

}  // namespace twin::sim
