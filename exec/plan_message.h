// A plan as bytes, for ranks that carry it out but did not decide it.
#pragma once

#include "exec/comm/message.h"
#include "sched/step_plan.h"

namespace twin::exec {

// All of the plan.
void PutPlan(const StepPlan& plan, MessageWriter& message);
// Replaces the plan's content, keeps its memory.
void TakePlan(MessageReader& message, StepPlan& plan);

}  // namespace twin::exec
