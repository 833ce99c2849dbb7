// How well a cost model predicts steps that it was not fitted on.
#pragma once

#include <span>

#include "sim/cost/fit_cost.h"
#include "sim/cost/fitted_cost.h"

namespace twin::sim {

// Over the steps that are held out.
FitReport Judge(const FittedCost& cost, std::span<const StepSample> steps);

}  // namespace twin::sim
