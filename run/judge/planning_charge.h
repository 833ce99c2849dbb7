// Charges a policy's planning as host time.
#pragma once

#include <memory>

#include "core/time.h"
#include "sim/cost/step_cost.h"

namespace twin::run {

// The cost model with `planning` more host time in each step.
std::shared_ptr<const sim::StepCost> WithPlanning(std::shared_ptr<const sim::StepCost> cost,
                                                  Duration planning);

}  // namespace twin::run
