// Predictions of how long operations and steps take.
#pragma once

#include <nanobind/nanobind.h>

namespace twin::python {

// Adds predict_operations and predict_steps, from file to file, to the module. They return
// (warnings, notes).
void BindPredictions(nanobind::module_& module);

}  // namespace twin::python
