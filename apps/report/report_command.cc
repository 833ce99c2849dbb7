// twinserve report: an HTML page about runs or a study.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "apps/report/report.h"
#include "core/files/output_file.h"
#include "core/input_error.h"

namespace twin::apps {
namespace {

namespace fs = std::filesystem;

struct ReportArguments {
  std::vector<fs::path> paths;
  std::string out;
};

void Report(const ReportArguments& arguments) {
  for (const fs::path& path : arguments.paths) {
    if (!fs::is_directory(path)) {
      throw InputError(InputError::Kind::kUsage, path.string(),
                       "is no folder; allowed: run directories, or the folder of a study");
    }
    if (run::IsStudy(path) && arguments.paths.size() > 1) {
      throw InputError(InputError::Kind::kUsage, path.string(),
                       "is a study; allowed: one study, or run directories");
    }
  }
  const fs::path& first = arguments.paths.front();
  const std::string page =
      run::IsStudy(first) ? run::StudyPage(first) : run::RunsPage(arguments.paths);
  fs::path out = arguments.out;
  if (out.empty()) out = arguments.paths.size() == 1 ? first / "report.html" : "report.html";
  WriteFile(out, page);
  std::cerr << fmt::format("wrote {}\n", out.string());
}

}  // namespace

void AddReportCommand(CLI::App& app, CommandContext& /*context*/) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App* command = app.add_subcommand(
      "report",
      "Write one HTML page with interactive figures about a run, several runs or a study; it needs "
      "no network");
  command->add_option("PATH", arguments->paths, "Run directories, or the folder of one study")
      ->required();
  command->add_option("--out", arguments->out,
                      "File to write (default: report.html in the folder of the run or study; for "
                      "several runs, in the current folder)");
  command->callback([arguments] { Report(*arguments); });
}

}  // namespace twin::apps
