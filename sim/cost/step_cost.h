// How long a step takes: the one question that a simulated world asks of a cost model.
#pragma once

#include <optional>
#include <span>

#include "core/step_parts.h"
#include "core/time.h"
#include "sched/step_plan.h"

namespace twin::sim {

// Predicts from the plan's totals (and, for swaps and copies, its KV operations); the cost of a
// call does not grow with the number of requests in the batch.
class StepCost {
 public:
  virtual ~StepCost() = default;

  // Pipeline stages that a step passes through, >= 1.
  [[nodiscard]] virtual int stages() const { return 1; }

  // Time that the host takes before the first stage can begin: scheduling, building, launching.
  // Also the whole duration of a step without work.
  [[nodiscard]] virtual Duration HostTime(const StepPlan& plan) const = 0;

  // Time of the step on each stage, including its sending to the next one.
  // REQUIRES: stage_times.size() == stages(), and the plan has work or swaps.
  virtual void DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) const = 0;

  // The same time by part, where the model knows it: schedule and delivery sum to the host
  // time, the others to the device times of all stages.
  [[nodiscard]] virtual std::optional<StepParts> Parts(const StepPlan& /*plan*/) const {
    return std::nullopt;
  }

  // False where the model was fitted on measurements and the step is larger than all of them.
  [[nodiscard]] virtual bool Covers(const StepTotals& /*totals*/) const { return true; }
};

}  // namespace twin::sim
