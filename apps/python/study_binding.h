// Studies: sweeps and capacities.
#pragma once

#include <nanobind/nanobind.h>

namespace twin::python {

// Adds sweep and capacity to the module.
void BindStudies(nanobind::module_& module);

}  // namespace twin::python
