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
    if (!fs::is_directory(path) && !fs::is_regular_file(path)) {
      throw InputError(InputError::Kind::kUsage, path.string(),
                       "is no folder and no file; allowed: run directories, files of measured "
                       "runs, or the folder of a study");
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
  if (out.empty()) {
    const bool inside = arguments.paths.size() == 1 && fs::is_directory(first);
    out = inside ? first / "report.html" : "report.html";
  }
  WriteFile(out, page);
  std::cerr << fmt::format("wrote {}\n", out.string());
}

}  // namespace

void AddReportCommand(CommandParser app, CommandContext& /*context*/) {
  auto arguments = std::make_shared<ReportArguments>();
  CommandParser command = app.AddCommand(
      "report",
      "Write one HTML page with interactive figures about a run, several runs or a study; it needs "
      "no network");
  command
      .AddOption("PATH", arguments->paths,
                 "Run directories and files of measured runs, or the folder of one study")
      .Required();
  command.AddOption("--out", arguments->out,
                    "File to write (default: report.html in the folder of the run or study; for "
                    "several runs or files, in the current folder)");
  command.OnCall([arguments] { Report(*arguments); });
}

}  // namespace twin::apps
