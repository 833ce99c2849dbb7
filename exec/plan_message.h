// Serialises plans for the ranks that execute them.
#pragma once

#include "exec/comm/message.h"
#include "sched/step_plan.h"

namespace twin::exec {

// All of the plan.
void PutPlan(const StepPlan& plan, MessageWriter& message);
// Replaces the plan's content, keeps its memory.
void TakePlan(MessageReader& message, StepPlan& plan);

}  // namespace twin::exec
