// Fits a cost model to a profile and evaluates it on steps that were held out from the fit.
#pragma once

#include <filesystem>

#include "apps/profile/profile_measurements.h"
#include "run/run_control.h"
#include "sim/cost/fit_cost.h"

namespace twin::run {

// Reads the profile and fits sim::FittedCost to it (sim/cost/fit_cost.h). Every third random mix of
// steps is held out; the errors in the report are on these. Warns of measurements with fewer rounds
// than the profile was begun with, and passes on the notes of the fit as warnings.
// Throws InputError (data) if the profile is damaged or incomplete, or if it does not determine the
// coefficients.
sim::FitResult FitProfile(const std::filesystem::path& path, RunControl& control);

}  // namespace twin::run
