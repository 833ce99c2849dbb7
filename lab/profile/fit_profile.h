// A profile becomes a cost model, judged on steps that the fit has not seen.
#pragma once

#include <filesystem>

#include "lab/profile/profile_file.h"
#include "lab/run_control.h"
#include "sim/cost/fit_cost.h"

namespace twin::lab {

// Reads the profile and fits sim::FittedCost to it. Every third random mix of steps is held out and
// is what the report's errors are measured on. Warns of measurements with fewer rounds than the
// profile was begun with, and of what the fit itself notes.
// Throws InputError (data) if the profile is damaged or incomplete, or if it does not determine the
// coefficients.
sim::FitResult FitProfile(const std::filesystem::path& path, RunControl& control);

}  // namespace twin::lab
