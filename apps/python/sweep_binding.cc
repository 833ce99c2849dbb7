#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "apps/python/bindings.h"
#include "apps/python/reporting_control.h"
#include "apps/study/study_directory.h"
#include "apps/study/study_runner.h"
#include "config/study_config.h"
#include "core/input_error.h"

namespace twin::python {
namespace {

namespace nb = nanobind;

// A row as Python has it: its summary beside these keys.
nb::dict DictOf(const run::StudyRow& row) {
  nb::dict dict;
  dict["point"] = row.id.point;
  dict["replication"] = row.id.replication;
  dict["seed"] = row.seed;
  dict["error"] = row.error;
  dict["wall_seconds"] = row.wall_seconds;
  for (const SummaryEntry& entry : row.summary.entries()) {
    std::visit([&](const auto& value) { dict[nb::str(entry.name.c_str())] = nb::cast(value); },
               entry.value);
  }
  return dict;
}

SummaryValue ValueOf(nb::handle value) {
  if (nb::isinstance<nb::int_>(value)) return nb::cast<std::int64_t>(value);
  if (nb::isinstance<nb::float_>(value)) return nb::cast<double>(value);
  return nb::cast<std::string>(value);
}

run::StudyRow RowOf(const nb::dict& dict) {
  run::StudyRow row;
  row.id.point = nb::cast<std::size_t>(dict["point"]);
  row.id.replication = nb::cast<std::uint32_t>(dict["replication"]);
  row.seed = nb::cast<std::uint64_t>(dict["seed"]);
  row.error = nb::cast<std::string>(dict["error"]);
  row.wall_seconds = nb::cast<double>(dict["wall_seconds"]);
  for (const auto& [key, value] : dict) {
    const auto name = nb::cast<std::string>(key);
    const bool own = name == "point" || name == "replication" || name == "seed" ||
                     name == "error" || name == "wall_seconds";
    if (!own && !value.is_none()) row.summary.Set(name, ValueOf(value));
  }
  return row;
}

// Runs rows of a study in this process: the rows, and the reports.
nb::tuple RunRows(const run::Study& study, const std::vector<std::size_t>& rows, int jobs) {
  for (const std::size_t row : rows) {
    if (row >= study.rows())
      throw InputError(InputError::Kind::kUsage, "rows", "are not the study's");
  }
  std::vector<run::StudyRow> made;
  ReportingControl control;
  RunInBackground(control, nb::none(), true, [&] {
    run::RunStudy(study, rows,
                  {.jobs = jobs, .runs_folder = {}, .command_line = {}, .may_fork = false}, control,
                  [&made](const run::StudyRow& row) { made.push_back(row); });
  });
  nb::list dicts;
  for (const run::StudyRow& row : made) dicts.append(DictOf(row));
  return nb::make_tuple(dicts, control.Reports());
}

// A study's folder that takes rows from anywhere.
class StudyFolder {
 public:
  StudyFolder(const run::Study& study, const std::string& out, bool accept_other_build)
      : study_(study), directory_(study, out, accept_other_build) {}

  [[nodiscard]] const std::vector<std::size_t>& missing() const { return directory_.missing(); }
  [[nodiscard]] nb::tuple Reports() const { return control_.Reports(); }

  void Append(const nb::list& rows) {
    for (const nb::handle dict : rows) {
      const run::StudyRow row = RowOf(nb::cast<nb::dict>(dict));
      if (row.id.point >= study_.points() || row.id.replication >= study_.config().replications ||
          row.seed != study_.SeedOf(row.id.replication))
        throw InputError(InputError::Kind::kUsage, "row", "is not the study's");
      directory_.Append(row, control_);
    }
  }

  // Returns the number of rows with errors.
  std::size_t Finish() { return directory_.Finish().failed; }

 private:
  const run::Study& study_;
  run::StudyDirectory directory_;
  ReportingControl control_;
};

// Runs what is missing in the folder: number of failed runs, and the reports.
nb::tuple Sweep(const run::Study& study, const std::string& out, int jobs, bool accept_other_build,
                const nb::object& progress) {
  run::SweepOutcome outcome;
  ReportingControl control;
  RunInBackground(control, progress, true, [&] {
    outcome = run::RunSweep(study, out,
                            {.jobs = jobs,
                             .command_line = {"python", "twinserve.sweep"},
                             .accept_other_build = accept_other_build},
                            control);
  });
  return nb::make_tuple(outcome.failed, control.Reports());
}

}  // namespace

run::Study StudyOf(const Source& source, const std::vector<std::string>& changes) {
  return {source.second ? ParseStudy(source.first, "study", std::filesystem::current_path())
                        : ReadStudy(source.first),
          changes};
}

void BindSweeps(nb::module_& module) {
  nb::class_<run::Study>(module, "Study")
      .def(
          "__init__",
          [](run::Study* self, const Source& source, const std::vector<std::string>& changes) {
            ReportingControl control;
            std::optional<run::Study> made;
            RunInBackground(control, nb::none(), false,
                            [&] { made.emplace(StudyOf(source, changes)); });
            new (self) run::Study(std::move(*made));
          },
          nb::arg("study"), nb::arg("changes"))
      .def_prop_ro("hash", &run::Study::hash)
      .def_prop_ro("columns", &run::Study::columns)
      .def_prop_ro("replications",
                   [](const run::Study& study) { return study.config().replications; })
      .def_prop_ro("keeps_runs",
                   [](const run::Study& study) { return !study.config().runs.empty(); })
      .def("run_rows", &RunRows, nb::arg("rows"), nb::arg("jobs"))
      .def("sweep", &Sweep, nb::arg("out"), nb::arg("jobs"), nb::arg("accept_other_build"),
           nb::arg("progress").none());
  nb::class_<StudyFolder>(module, "StudyFolder")
      .def(nb::init<const run::Study&, const std::string&, bool>(), nb::arg("study"),
           nb::arg("out"), nb::arg("accept_other_build"), nb::keep_alive<1, 2>(),
           nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("missing", &StudyFolder::missing)
      .def_prop_ro("reports", &StudyFolder::Reports)
      .def("append", &StudyFolder::Append, nb::arg("rows"))
      .def("finish", &StudyFolder::Finish, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace twin::python
