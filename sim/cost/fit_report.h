// The errors of a fitted cost model on steps that it was not fitted on.
#pragma once

#include <span>

#include "sim/cost/fit_cost.h"
#include "sim/cost/fitted_cost.h"

namespace twin::sim {

// Compares predicted and measured times of the steps with `held_out`.
FitReport MeasureFitErrors(const FittedCost& cost, std::span<const StepSample> steps);

}  // namespace twin::sim
