#include "run/simulated_parts.h"

#include <algorithm>

#include "core/check.h"

namespace twin::run {

bool HasParts(const sim::StepCost& cost) {
  return cost.stages() == 1 && cost.Parts(StepPlan{}).has_value();
}

void PartsWatchingWorld::Launch(const StepPlan& plan) {
  const sim::DeviceState before =
      inner_.devices().empty() ? sim::DeviceState{} : inner_.devices().front();
  inner_.Launch(plan);
  StepTimes times;
  times.planned = inner_.now();
  times.told = inner_.last_delivery();
  if (inner_.last_stages().empty()) {
    times.started = times.finished = times.told;
  } else {
    const sim::SimWorld::StageSpan& span = inner_.last_stages().front();
    times.started = span.begin;
    times.finished = span.end;
    times.parts = *cost_.Parts(plan, span.begin, before);
    CHECK(times.parts.device() == times.finished - times.started);
  }
  times.parts[StepPart::kSchedule] = times.started - std::max(times.planned, free_);
  times.parts[StepPart::kDelivery] = times.told - times.finished;
  free_ = std::max(free_, times.finished);
  totals_.OnStep(plan.replica, plan.id, times);
}

}  // namespace twin::run
