#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/predict/predict_operations.h"
#include "apps/predict/predict_serving.h"
#include "apps/predict/predict_steps.h"
#include "apps/python/bindings.h"
#include "apps/python/reporting_control.h"
#include "config/hardware_file.h"
#include "config/models/named_model.h"
#include "config/profile_folder.h"
#include "config/step_engine_names.h"
#include "core/input_error.h"
#include "sim/devices/profile_cost.h"
#include "sim/devices/stage_cache.h"

namespace twin::python {
namespace {

namespace nb = nanobind;

template <class E>
E ValueOfWord(const char* what, const std::string& name,
              const std::vector<std::pair<std::string, E>>& words) {
  std::string allowed;
  for (const auto& [word, value] : words) {
    if (name == word) return value;
    allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", word);
  }
  throw InputError(InputError::Kind::kUsage, what,
                   fmt::format("is \"{}\"; allowed: {}", name, allowed));
}

sim::DeviceProfile ProfileOf(const std::string& profile, const HardwareSpec& hardware) {
  return profile.empty() ? ProfilePreset(hardware.name) : ReadProfileFolder(profile);
}

// Returns the reports.
nb::tuple PredictOperations(const std::string& in, const std::string& out,
                            const std::string& hardware, const std::string& operation,
                            const std::string& profile) {
  const auto kind = ValueOfWord<std::string>("operation", operation, run::OperationKindWords());
  ReportingControl control;
  RunInBackground(control, nb::none(), false, [&] {
    const HardwareSpec spec = HardwareFromNameOrFile(hardware);
    run::PredictOperations(spec, ProfileOf(profile, spec), kind, {in, out}, control);
  });
  return control.Reports();
}

struct ServedModelOptions {
  std::string hardware;
  std::string model;
  std::string profile;
  std::string engine;
  Parallelism parallelism;
};

// Returns the reports.
nb::tuple PredictSteps(const std::string& in, const std::string& out,
                       const ServedModelOptions& served, sim::StageCache& stages) {
  sim::ProfileCostConfig cost;
  cost.engine = ValueOfWord<sim::StepEngine>("engine", served.engine, StepEnginesWithoutPolicy());
  if (served.parallelism.tensor < 1 || served.parallelism.pipeline < 1) {
    throw InputError(InputError::Kind::kUsage,
                     served.parallelism.tensor < 1 ? "tensor" : "pipeline", "must be at least 1");
  }
  ReportingControl control;
  RunInBackground(control, nb::none(), false, [&] {
    const HardwareSpec hardware = HardwareFromNameOrFile(served.hardware);
    const ModelSpec model = ReadNamedShape(served.model, false);
    Validate(model, served.parallelism);
    cost.device = std::make_shared<const sim::DeviceProfile>(ProfileOf(served.profile, hardware));
    const sim::StepModel steps(sim::StepModelConfigOf(cost, hardware), model, hardware,
                               served.parallelism, *cost.device, &stages);
    run::PredictSteps(steps, {in, out}, control);
  });
  return control.Reports();
}

// Returns the reports.
nb::tuple PredictServing(const std::string& in, const std::string& out, std::uint64_t seed,
                         const std::vector<std::string>& changes, int jobs,
                         const nb::object& progress) {
  ReportingControl control;
  run::ServingPredictionOptions options{
      .seed = seed, .changes = changes, .jobs = jobs, .experiments = {}};
  RunInBackground(control, progress, false, [&] {
    run::PredictServing({in, out}, options, control);
  });
  return control.Reports();
}

}  // namespace

void BindPredictions(nb::module_& module) {
  module.def("predict_serving", &PredictServing, nb::arg("in_path"), nb::arg("out_path"),
             nb::arg("seed"), nb::arg("overrides"), nb::arg("jobs"), nb::arg("progress").none());
  module.def("predict_operations", &PredictOperations, nb::arg("in_path"), nb::arg("out_path"),
             nb::arg("hardware"), nb::arg("operation"), nb::arg("profile"));
  module.def(
      "predict_steps",
      [stages = std::make_shared<sim::StageCache>()](
          const std::string& in, const std::string& out, const std::string& hardware,
          const std::string& model, std::int32_t tensor, std::int32_t pipeline,
          const std::string& engine, const std::string& profile) {
        ServedModelOptions served{hardware, model, profile, engine, {}};
        served.parallelism.tensor = tensor;
        served.parallelism.pipeline = pipeline;
        return PredictSteps(in, out, served, *stages);
      },
      nb::arg("in_path"), nb::arg("out_path"), nb::arg("hardware"), nb::arg("model"),
      nb::arg("tensor"), nb::arg("pipeline"), nb::arg("engine"), nb::arg("profile"));
}

}  // namespace twin::python
