// The plans of a part of a decode streak, one by one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sched/streak_part.h"

namespace twin {

// Appends the plan of each step that is launched in the part. REQUIRES: the plan before them is the
// last one of `plans`.
inline void AppendPlans(const StreakPart& part, std::vector<StepPlan>& plans) {
  std::size_t kv_begin = 0;
  for (const StreakPart::Moment& moment : part.moments) {
    StepPlan plan = plans.back();
    plan.id = StepId{Index(plan.id) + 1};
    for (WorkItem& item : plan.work) ++item.start;
    plan.totals.Repeat(1);
    plan.kv.assign(part.kv.begin() + static_cast<std::ptrdiff_t>(kv_begin),
                   part.kv.begin() + static_cast<std::ptrdiff_t>(moment.kv_end));
    plan.free_blocks_before = plan.free_blocks;
    plan.free_blocks = moment.free_blocks;
    plan.repeats.is_set = true;
    plans.push_back(plan);
    kv_begin = moment.kv_end;
  }
}

}  // namespace twin
