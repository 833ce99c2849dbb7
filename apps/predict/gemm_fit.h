// Fits the closed form of matrix products (sim/devices/operations/gemm_closed_form.h).
#pragma once

#include <span>
#include <vector>

#include "apps/predict/gemm_rows.h"
#include "core/hardware_spec.h"
#include "run/run_control.h"
#include "sim/devices/operations/gemm_profile.h"

namespace twin::run {

// Least absolute logarithms of predicted over measured time, each cut at 0.5, over `rows` of one
// format; many rows are thinned out evenly. Coefficients that the rows do not determine stay near
// their defaults. `log_sd` comes from the 90th percentile of the errors of all rows.
// `row_rounding` is fitted too if `fits_rounding`. Ends early as EndIfStopped() does. REQUIRES:
// rows is not empty.
sim::GemmFit FitGemm(const HardwareSpec& hardware, std::span<const GemmRow> rows,
                     const RunControl& control, bool fits_rounding = false);

// ln(predicted / measured) of each row.
std::vector<double> GemmFitErrors(const HardwareSpec& hardware,
                                  const sim::GemmCoefficients& coefficients,
                                  std::span<const GemmRow> rows);

}  // namespace twin::run
