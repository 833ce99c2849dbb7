// Predicts how long the steps of a table take.
#pragma once

#include <cstdint>

#include "apps/predict/predict_operations.h"
#include "core/model_spec.h"
#include "sim/devices/step_model.h"

namespace twin::run {

// Writes the table `files.in` (step_table.h) with three more columns: predicted_us,
// predicted_low_us and predicted_high_us (a 90 % interval). Returns the number of rows.
// Throws InputError with file, line and field, and ends early as EndIfStopped() does.
std::uint64_t PredictSteps(const sim::StepModel& model, const OperationTableFiles& files,
                           RunControl& control);

}  // namespace twin::run
