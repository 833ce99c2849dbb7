#include "record/replay_world.h"

#include <utility>

namespace twin {
namespace {

std::string TextOf(const StepPlan* plan) {
  return plan == nullptr ? std::string("no plan") : PlanText(*plan);
}

}  // namespace

std::string ReplayDifference::text() const {
  return "first difference at " + std::to_string(Nanoseconds(now)) + " ns, in " + where.field +
         ": recorded " + where.left + ", decided " + where.right + "\n  recorded " + recorded +
         "\n  decided  " + decided;
}

Instant ReplayWorld::Advance(TimePoint /*wake_at*/) {
  if (!difference_) {
    if (const StepPlan* missed = source_.NextPlan()) {
      Differ({"plan", "a plan", "none"}, missed, nullptr);
    }
  }
  Instant instant{now_, {}};
  if (!difference_ && source_.NextInstant(instant)) now_ = instant.now;
  return instant;
}

void ReplayWorld::Launch(const StepPlan& plan) {
  if (difference_) return;
  const StepPlan* recorded = source_.NextPlan();
  if (recorded == nullptr) {
    Differ({"plan", "none", "a plan"}, nullptr, &plan);
  } else if (std::optional<PlanDifference> where = FirstDifference(*recorded, plan)) {
    Differ(*std::move(where), recorded, &plan);
  } else {
    ++equal_plans_;
  }
}

void ReplayWorld::Differ(PlanDifference where, const StepPlan* recorded, const StepPlan* decided) {
  difference_ = ReplayDifference{now_, std::move(where), TextOf(recorded), TextOf(decided)};
}

}  // namespace twin
