// Runs, their results, and recorded runs.
#pragma once

#include <nanobind/nanobind.h>

namespace twin::python {

// Adds run, replay and NativeRun to the module. `policy_error` is twinserve.PolicyError.
void BindRuns(nanobind::module_& module, nanobind::object policy_error);

}  // namespace twin::python
