// The interface of cost models: how long a step takes in a simulated world.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/step_parts.h"
#include "core/time.h"
#include "sched/step_plan.h"
#include "sim/cost/device_state.h"

namespace twin::sim {

// Longest time that a cost model may predict for a part of a step, 11.6 days. Anything beyond comes
// from a wrong coefficient; the limit also keeps sums of parts and stages far from overflow.
constexpr double kStepSecondsMax = 1e6;

// Throws InputError (usage) naming the cost model and the seconds that it predicted.
[[noreturn]] void RefuseCost(std::string_view model, double seconds);

// Every cost model turns its seconds into durations here. `model` is its path in the configuration,
// such as "cost.linear". Throws InputError (usage) unless 0 <= seconds <= kStepSecondsMax, which
// also refuses not-a-number.
inline Duration CostDuration(std::string_view model, double seconds) {
  if (!(seconds >= 0 && seconds <= kStepSecondsMax)) [[unlikely]]
    RefuseCost(model, seconds);
  return DurationFromSeconds(seconds);
}

// A cost model as one replica asks it, step after step: what a step has in common with the one
// before is not computed again. All times are those of StepCost, to the bit. Not thread-safe.
class StepTimer {
 public:
  virtual ~StepTimer() = default;
  // As in StepCost.
  virtual void DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) = 0;
  [[nodiscard]] virtual Duration StageTime(const StepPlan& plan, int stage, TimePoint begin,
                                           const DeviceState& state) = 0;
};

// Predicts the times of a step from its plan's totals and, for swaps, its KV operations. The cost
// of a call does not grow with the number of requests in the batch, except for plans that swap.
class StepCost {
 public:
  virtual ~StepCost() = default;

  // Pipeline stages that a step passes through, >= 1.
  [[nodiscard]] virtual int stages() const { return 1; }

  // Host time before the first stage can begin: scheduling, building, launching.
  [[nodiscard]] virtual Duration HostTime(const StepPlan& plan) const = 0;

  // Time on each stage, including the transfer to the next stage.
  // REQUIRES: stage_times.size() == stages(), and the plan has work or swaps.
  virtual void DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) const = 0;

  // True if the time of a step depends on what its devices did before. Worlds then ask StageTime()
  // for one stage after the other; DeviceTimes() are the times on rested devices.
  [[nodiscard]] virtual bool remembers() const { return false; }

  // Time of one stage that begins at `begin` on devices in `state`.
  // REQUIRES: 0 <= stage < stages(), begin >= state.changed, and as for DeviceTimes().
  [[nodiscard]] virtual Duration StageTime(const StepPlan& plan, int stage, TimePoint begin,
                                           const DeviceState& state) const;

  // A timer for one replica, which borrows this model. The default asks the model anew each step.
  [[nodiscard]] virtual std::unique_ptr<StepTimer> Timer() const;

  // Moves `state` to the end of a step that used the devices from `begin` to `end`.
  virtual void Advance(const StepPlan& /*plan*/, TimePoint /*begin*/, TimePoint /*end*/,
                       DeviceState& /*state*/) const {}

  // Time from the end of the last stage until the engine sees the step's results. The devices are
  // free for the next step meanwhile.
  [[nodiscard]] virtual Duration DeliveryTime(const StepPlan& /*plan*/) const {
    return Duration{0};
  }

  // Device and host times by part; nullopt if the model has no parts. `schedule` is the host time,
  // `delivery` the delivery time, and the other parts sum to the device times of all stages.
  [[nodiscard]] virtual std::optional<StepParts> Parts(const StepPlan& /*plan*/) const {
    return std::nullopt;
  }

  // Parts of a step that begins at `begin` on a device in `state`: `clocks` is the time that the
  // state adds. REQUIRES: stages() == 1.
  [[nodiscard]] virtual std::optional<StepParts> Parts(const StepPlan& plan, TimePoint /*begin*/,
                                                       const DeviceState& /*state*/) const {
    return Parts(plan);
  }

  // False if the model was fitted on measurements and the step is larger than all of them.
  [[nodiscard]] virtual bool Covers(const StepTotals& /*totals*/) const { return true; }

  // The model for a run with this seed; null if it draws no random numbers, and serves all runs. A
  // model is made before the runs are known: it draws its numbers from this seed alone.
  [[nodiscard]] virtual std::shared_ptr<const StepCost> Seeded(std::uint64_t /*seed*/) const {
    return nullptr;
  }
};

// The model for a run with this seed.
inline std::shared_ptr<const StepCost> CostOfSeed(const std::shared_ptr<const StepCost>& cost,
                                                  std::uint64_t seed) {
  std::shared_ptr<const StepCost> seeded = cost->Seeded(seed);
  return seeded != nullptr ? seeded : cost;
}

}  // namespace twin::sim
