// Request traces, as columns.
#pragma once

#include <nanobind/nanobind.h>

namespace twin::python {

// Adds read_trace and write_trace to the module.
void BindTraces(nanobind::module_& module);

}  // namespace twin::python
