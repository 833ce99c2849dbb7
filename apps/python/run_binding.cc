#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "apps/built_parts.h"
#include "apps/missing_command.h"
#include "apps/python/bindings.h"
#include "apps/python/python_policy.h"
#include "apps/python/reporting_control.h"
#include "apps/python/run_table.h"
#include "core/input_error.h"
#include "run/config_warnings.h"
#include "run/cost_cache.h"
#include "run/deployed_groups.h"
#include "run/files/record_file.h"
#include "run/real/real_run.h"
#include "run/record/row_cells.h"
#include "run/record/series.h"
#include "run/replay.h"
#include "run/simulation.h"

namespace twin::python {
namespace {

namespace nb = nanobind;

// Everything that a run leaves in memory. Tables are absent where outputs does not ask for them, or
// where a run directory holds them.
struct NativeRun {
  run::RunOutcome outcome;
  std::string config;  // resolved; empty with a run directory
  std::optional<std::string> directory;
  std::unique_ptr<RequestTable> requests;
  std::unique_ptr<StepTable> steps;
  std::optional<std::string> series;  // series.csv
  std::vector<std::string> warnings;
  std::vector<std::string> notes;
};

void SimulateInMemory(const ExperimentConfig& config, NativeRun& run, run::CostCache& costs,
                      ReportingControl& control) {
  const run::Deployment deployment = run::Resolve(config, costs);
  for (const std::string& warning : run::WarningsOf(deployment, &costs)) control.OnWarning(warning);
  const OutputsConfig& outputs = config.outputs;
  std::optional<Series> series;
  run::RunWatchers watchers;
  if (outputs.requests_csv) {
    run.requests = std::make_unique<RequestTable>(run::FurtherColumnsOf(config));
    watchers.listeners.push_back(run.requests.get());
  }
  if (outputs.steps_csv) {
    run.steps = std::make_unique<StepTable>(run::FurtherColumnsOf(config));
    watchers.listeners.push_back(run.steps.get());
  }
  if (outputs.series_csv) {
    series.emplace(
        SeriesConfig{.interval = config.metrics.series_interval,
                     .points_max = static_cast<std::size_t>(config.metrics.series_points_max),
                     .kv_blocks = run::KvBlocksOf(deployment.engines())});
    watchers.listeners.push_back(&*series);
  }
  run.config = WriteResolved(deployment.config);
  run.outcome = run::Simulate(deployment, control, watchers);
  run::ReportLosses(run.outcome, control);
  if (!series) return;
  std::ostringstream text;
  series->WriteTo(text);
  run.series = text.str();
}

void RunInto(const ExperimentConfig& config, const std::string& out, NativeRun& run,
             run::CostCache& costs, ReportingControl& control) {
  const std::vector<std::string> command_line = {"python", "twinserve.run"};
  if (!IsReal(config.world)) {
    run.outcome = run::RunSimulation(config, out, command_line, control, 1, &costs);
  } else if constexpr (apps::kHasExec) {
    run.outcome = run::RunReal(config, out, command_line, control);
  } else {
    throw apps::NotBuilt("world.real", "TWIN_EXEC");
  }
}

// `directory`: a path, or a function without arguments that makes one for a run that needs a run
// directory although none was asked for.
std::unique_ptr<NativeRun> Run(const ExperimentConfig& config, const nb::object& directory,
                               const nb::object& progress, run::CostCache& costs) {
  costs.ForgetProfiles();
  auto run = std::make_unique<NativeRun>();
  const bool real = IsReal(config.world);
  if (nb::isinstance<nb::str>(directory)) {
    run->directory = nb::cast<std::string>(directory);
  } else if (real) {
    run->directory = nb::cast<std::string>(directory());
  }
  ReportingControl control;
  RunInBackground(control, progress, config.own_policy != nullptr, [&] {
    if (run->directory) {
      RunInto(config, *run->directory, *run, costs, control);
    } else {
      SimulateInMemory(config, *run, costs, control);
    }
  });
  run->warnings = control.warnings();
  run->notes = control.notes();
  return run;
}

ExperimentConfig Read(const std::string& experiment, bool is_text,
                      const std::vector<std::string>& overrides,
                      std::shared_ptr<const OwnPolicy> own_policy) {
  ExperimentTemplate source = is_text ? ExperimentTemplate::FromText(experiment, "experiment")
                                      : ExperimentTemplate(experiment);
  source.ReplacePolicy(std::move(own_policy));
  source.Change(overrides, std::filesystem::current_path());
  return source.With({}, {});
}

nb::object ToPython(const SummaryValue& value) {
  return std::visit([](const auto& held) { return nb::object(nb::cast(held)); }, value);
}

nb::dict SummaryOf(const NativeRun& run) {
  nb::dict summary;
  for (const SummaryEntry& entry : run.outcome.summary.entries()) {
    summary[entry.name.c_str()] = ToPython(entry.value);
  }
  return summary;
}

// A column as an array that shares its memory and keeps `owner` alive.
template <class T>
nb::object ArrayOf(const std::vector<T>& values, nb::handle owner) {
  // Nobody else reads the column, so Python may write to it.
  T* const data = const_cast<T*>(values.data());
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {values.size()}, owner));
}

nb::list ListOf(std::span<const std::string_view> words) {
  nb::list list;
  for (const std::string_view word : words) list.append(nb::str(word.data(), word.size()));
  return list;
}

// Name -> (array, words): the words of a column of codes, else None.
nb::dict TableOf(const RunTable& table, nb::handle owner) {
  nb::dict columns;
  for (const RunColumn& column : table.columns()) {
    const nb::object words =
        column.words.empty() ? nb::object(nb::none()) : nb::object(ListOf(column.words));
    nb::object array = std::visit([&](const auto& v) { return ArrayOf(v, owner); }, column.values);
    columns[nb::str(column.name.data(), column.name.size())] = nb::make_tuple(array, words);
  }
  return columns;
}

nb::object RequestsOf(nb::handle_t<NativeRun> self) {
  const auto& run = nb::cast<const NativeRun&>(self);
  if (run.requests == nullptr) return nb::none();
  return TableOf(run.requests->table(), self);
}

nb::object StepsOf(nb::handle_t<NativeRun> self) {
  const auto& run = nb::cast<const NativeRun&>(self);
  if (run.steps == nullptr) return nb::none();
  return TableOf(run.steps->table(), self);
}

nb::dict Replay(const std::string& run_dir, std::shared_ptr<const OwnPolicy> own_policy) {
  const std::filesystem::path path(run_dir);
  const std::filesystem::path file =
      std::filesystem::is_directory(path) ? path / "record.pb" : path;
  if (!std::filesystem::exists(file)) {
    throw InputError(InputError::Kind::kUsage, run_dir,
                     "has no record.pb; allowed: a run directory made with outputs.record");
  }
  std::optional<run::ReplayResult> result;
  std::uint64_t recorded = 0;
  ReportingControl control;
  RunInBackground(control, nb::none(), true, [&] {
    RecordReader reader(file);
    const RecordHeader& header = reader.header();
    ExperimentConfig config = ParseExperiment(header.config, file.string() + ": config", path);
    config.own_policy = own_policy;
    result = run::ReplayDecisions(reader, config, header);
    if (!result->difference) recorded = reader.end().digest;
  });
  nb::dict replayed;
  replayed["equal"] = !result->difference && result->digest == recorded;
  replayed["digest"] = result->digest_text;
  replayed["plans"] = result->plans;
  replayed["equal_plans"] = result->equal_plans;
  replayed["difference"] =
      result->difference ? nb::cast(result->difference->text()) : nb::object(nb::none());
  return replayed;
}

std::shared_ptr<const OwnPolicy> OwnPolicyOrNull(const nb::object& policy,
                                                 const nb::object& error) {
  return policy.is_none() ? nullptr : OwnPolicyOf(policy, error);
}

}  // namespace

void BindRuns(nb::module_& module, nb::object policy_error) {
  nb::class_<NativeRun>(module, "NativeRun", "What a run leaves in memory.")
      .def_prop_ro("summary", &SummaryOf, "The keys of summary.json, in its order.")
      .def_prop_ro("interrupted", [](const NativeRun& run) { return run.outcome.interrupted; })
      .def_ro("config", &NativeRun::config, "The resolved experiment, in text format.")
      .def_ro("directory", &NativeRun::directory, "The run directory, or None.")
      .def_ro("warnings", &NativeRun::warnings)
      .def_ro("notes", &NativeRun::notes)
      .def_prop_ro(
          "series", [](const NativeRun& run) { return run.series; },
          "The text of series.csv, or None.")
      .def_prop_ro("requests", &RequestsOf, "Columns of requests.csv by name, or None.")
      .def_prop_ro("steps", &StepsOf, "Columns of steps.csv by name, or None.");
  module.attr("request_statuses") = ListOf(kRequestStatusNames);
  module.attr("reject_reasons") = ListOf(kRejectReasonNames);
  module.def(
      "run",
      [policy_error, costs = std::make_shared<run::CostCache>()](
          const std::string& experiment, bool is_text, const std::vector<std::string>& overrides,
          const nb::object& directory, const nb::object& policy, const nb::object& progress) {
        return Run(Read(experiment, is_text, overrides, OwnPolicyOrNull(policy, policy_error)),
                   directory, progress, *costs);
      },
      nb::arg("experiment"), nb::arg("is_text"), nb::arg("overrides"), nb::arg("directory"),
      nb::arg("policy").none(), nb::arg("progress").none());
  module.def(
      "resolve",
      [](const std::string& experiment, bool is_text, const std::vector<std::string>& overrides) {
        return WriteResolved(Read(experiment, is_text, overrides, nullptr));
      },
      nb::arg("experiment"), nb::arg("is_text"), nb::arg("overrides"));
  module.def(
      "replay",
      [policy_error](const std::string& run_dir, nb::object policy) {
        return Replay(run_dir, OwnPolicyOrNull(policy, policy_error));
      },
      nb::arg("run_dir"), nb::arg("policy").none());
}

}  // namespace twin::python
