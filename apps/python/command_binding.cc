#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "apps/commands.h"
#include "apps/experiment_names.h"
#include "apps/page/plotly_loaded.h"
#include "apps/python/bindings.h"
#include "apps/run_command_line.h"

namespace twin::python {
namespace {

namespace nb = nanobind;

// `row`: name, help, and a function that takes a list of words and returns an exit code.
apps::FurtherCommand FurtherOf(const nb::tuple& row) {
  return {.name = nb::cast<std::string>(row[0]),
          .help = nb::cast<std::string>(row[1]),
          .call = [call = nb::object(row[2])](const std::vector<std::string>& arguments) {
            const nb::gil_scoped_acquire lock;
            return nb::cast<int>(call(arguments));
          }};
}

// `command_line`: bytes, as names of files may be no text.
int Main(const nb::list& command_line, const nb::list& further) {
  std::vector<std::string> line;
  for (const nb::handle word : command_line) {
    const auto bytes = nb::cast<nb::bytes>(word);
    line.emplace_back(bytes.c_str(), bytes.size());
  }
  std::vector<char*> words;
  for (std::string& word : line) words.push_back(word.data());
  words.push_back(nullptr);
  std::vector<apps::FurtherCommand> commands;
  for (const nb::handle row : further) commands.push_back(FurtherOf(nb::cast<nb::tuple>(row)));
  const nb::gil_scoped_release release;
  return apps::RunCommandLine(static_cast<int>(line.size()), words.data(), commands);
}

}  // namespace

void BindCommandLine(nb::module_& module) {
#ifdef TWIN_WHEEL
  run::SetPlotlyLoader([] {
    const nb::gil_scoped_acquire lock;
    return nb::cast<std::string>(nb::module_::import_("twinserve._extras").attr("plotly_script")());
  });
#endif
  module.def("main", &Main, nb::arg("command_line"), nb::arg("further"));
  module.def(
      "set_policy_host_command",
      [](const std::vector<std::string>& words, const std::vector<std::string>& paths) {
        apps::SetPolicyHostCommand(words, paths);
      },
      nb::arg("words"), nb::arg("paths"));
  module.def(
      "set_data_folder", [](const std::string& folder) { apps::SetDataFolder(folder); },
      nb::arg("folder"));
  module.def(
      "experiment_file",
      [](const std::string& asked) { return apps::ExperimentFile(asked).string(); },
      nb::arg("asked"));
}

}  // namespace twin::python
