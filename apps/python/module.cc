// The extension module twinserve._native, which the package twinserve wraps.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

#include "apps/python/bindings.h"
#include "apps/python/policy_step.h"
#include "apps/python/python_policy.h"
#include "config/config_difference.h"
#include "core/input_error.h"
#include "run/record/metric_catalog.h"
#include "run/version.h"
#include "sched/invariant.h"

namespace nb = nanobind;

namespace twin::python {
namespace {

using NamedText = std::pair<std::string, std::string>;

// Rows (path, values) of the fields that are not equal in all configs.
nb::list Differences(const std::vector<NamedText>& configs) {
  std::vector<ConfigText> texts;
  for (const auto& [name, text] : configs) texts.push_back({name, text});
  nb::list rows;
  for (const FieldDifference& field : ConfigDifferences(texts)) {
    rows.append(nb::make_tuple(field.path, field.values));
  }
  return rows;
}

}  // namespace
}  // namespace twin::python

NB_MODULE(_native, module) {
  // At exit, nanobind would report objects that other modules still hold, as pyarrow does with the
  // columns of tables. Nothing is lost then: the process ends.
  nb::set_leak_warnings(false);
  module.doc() = "twinserve in this process; use the package twinserve.";
  module.attr("version") = std::string(twin::run::kVersion);
  module.attr("commit") = std::string(twin::run::kCommit);
  const nb::exception<twin::InputError> input_error(module, "InputError", PyExc_ValueError);
  const std::string name = nb::cast<std::string>(module.attr("__name__")) + ".PolicyError";
  const nb::object policy_error =
      nb::steal(PyErr_NewException(name.c_str(), PyExc_RuntimeError, nullptr));
  module.attr("PolicyError") = policy_error;
  const nb::exception<twin::InvariantViolation> violation(module, "InvariantViolation",
                                                          policy_error);
  twin::python::SetPolicyLoader(policy_error);
  twin::python::BindCommandLine(module);
  twin::python::BindPolicy(module);
  twin::python::BindRuns(module, policy_error);
  twin::python::BindStatistics(module);
  twin::python::BindStudies(module);
  twin::python::BindSweeps(module);
  twin::python::BindTraces(module);
  twin::python::BindPredictions(module);
  module.def("config_differences", &twin::python::Differences, nb::arg("configs"));
  nb::list headline;
  for (const std::string& name : twin::HeadlineMetrics()) headline.append(nb::cast(name));
  module.attr("headline_metrics") = headline;
}
