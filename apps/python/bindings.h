// Parts of the extension module twinserve._native. Each function adds one to the module.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>
#include <vector>

#include "apps/study/study.h"

namespace twin::python {

// main, which is the command line, and the names of experiments.
void BindCommandLine(nanobind::module_& module);

// predict_operations and predict_steps, from file to file. They return (warnings, notes).
void BindPredictions(nanobind::module_& module);

// run, replay and NativeRun. `policy_error` is twinserve.PolicyError.
void BindRuns(nanobind::module_& module, nanobind::object policy_error);

// metric_interval and paired_difference.
void BindStatistics(nanobind::module_& module);

// sweep and capacity.
void BindStudies(nanobind::module_& module);

// Rows of a study that are run here or elsewhere, and the folder that takes them.
void BindSweeps(nanobind::module_& module);

// read_trace and write_trace.
void BindTraces(nanobind::module_& module);

// A path of a file, or its text, and whether it is the text.
using Source = std::pair<std::string, bool>;

// Reads a study and changes its fields as --set does.
run::Study StudyOf(const Source& source, const std::vector<std::string>& changes);

}  // namespace twin::python
