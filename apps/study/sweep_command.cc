// twinserve sweep: all points of a study.
#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <optional>

#include "apps/commands.h"
#include "apps/experiment_names.h"
#include "apps/options.h"
#include "apps/study/study.h"
#include "apps/study/study_directory.h"
#include "apps/study/study_table.h"
#include "apps/terminal_control.h"
#include "config/study_config.h"
#include "core/csv.h"
#include "core/input_error.h"
#include "run/record/table.h"

namespace twin::apps {
namespace {

constexpr std::size_t kTextRowsMax = 60;  // rows that a person reads

struct SweepArguments {
  std::string study;
  std::vector<std::string> assignments;
  std::string out;
  std::string format = "table";
  std::vector<std::string> metrics;
  int jobs = 0;
  bool dry_run = false;
  bool accept_other_build = false;
};

void PrintPoints(const run::Study& study) {
  std::vector<std::string> cells = {"point"};
  cells.insert(cells.end(), study.columns().begin(), study.columns().end());
  std::cout << CsvRow(cells);
  for (std::size_t point = 0; point < study.points(); ++point) {
    cells = study.ValuesOf(point);
    cells.insert(cells.begin(), std::to_string(point));
    std::cout << CsvRow(cells);
  }
  std::cerr << fmt::format("{} points, {} runs each: {} runs\n", study.points(),
                           study.config().replications, study.rows());
}

// Prints the points that are there.
void PrintResult(const SweepArguments& arguments, const run::Study& study,
                 const std::vector<std::string>& metrics) {
  const std::string summary = arguments.out + "/summary.csv";
  const std::optional<TableFormat> format = FindTableFormat(arguments.format);
  if (!format) {
    run::WriteStudyPoints(std::cout, study, summary);
    return;
  }
  Table table = run::StudyTable(study, summary, metrics);
  const std::size_t rows = table.rows.size();
  if (format == TableFormat::kText && rows > kTextRowsMax) table.rows.resize(kTextRowsMax);
  WriteTable(std::cout, table, *format);
  if (run::LacksRuns(table)) {
    WriteRemark(std::cout,
                "(20 runs): replications that an interval of the metric wants; as few as here can "
                "miss the rare long waits (docs/studies.md).",
                *format);
  }
  if (table.rows.size() < rows) {
    std::cout << fmt::format("and {} more points: {}\n", rows - table.rows.size(), summary);
  }
}

void Sweep(const SweepArguments& arguments, CommandContext& context) {
  const run::Study study(ReadStudy(ExperimentFile(arguments.study)), arguments.assignments);
  if (const std::string note = study.SeedNote(); !note.empty()) {
    std::cerr << fmt::format("note: {}\n", note);
  }
  if (arguments.dry_run) {
    PrintPoints(study);
    return;
  }
  if (arguments.out.empty()) {
    throw InputError(InputError::Kind::kUsage, "--out",
                     "is missing; allowed: a folder for the results, or --dry-run");
  }
  const std::vector<std::string> metrics = run::MetricsToShow(study, arguments.metrics);
  TerminalControl control;
  const run::SweepOutcome outcome =
      run::RunSweep(study, arguments.out,
                    {.jobs = arguments.jobs,
                     .command_line = context.command_line,
                     .accept_other_build = arguments.accept_other_build},
                    control);
  PrintResult(arguments, study, metrics);
  std::cerr << fmt::format("wrote {}: {} points, {}{} runs\n", arguments.out, study.points(),
                           outcome.interrupted ? fmt::format("{} of ", outcome.done) : "",
                           outcome.rows);
  if (outcome.failed > 0) {
    std::cerr << fmt::format("{} runs failed; the column error of results.csv says why\n",
                             outcome.failed);
    context.exit_code = 1;
  }
  if (outcome.interrupted) {
    std::cerr << "interrupted: the same command continues\n";
    context.exit_code = 1;
  }
}

}  // namespace

void AddSweepCommand(CommandParser app, CommandContext& context) {
  auto arguments = std::make_shared<SweepArguments>();
  CommandParser command =
      app.AddCommand("sweep", "Simulate all points of a study, several at a time");
  command.AddOption("STUDY", arguments->study, "Study file (.textproto): docs/studies.md")
      .Required();
  AddOverrideOptions(command, arguments->assignments);
  AddPolicyOption(command, arguments->assignments);
  command.AddOption("--out", arguments->out,
                    "Folder for results.csv, summary.csv, timing.csv and study.json; a folder "
                    "with a part of the same study is continued");
  command.AddOption("--format", arguments->format, "What to print (default: table)")
      .OneOf({"table", "json", "markdown", "latex"});
  command
      .AddOption("--metrics", arguments->metrics,
                 "Columns of summary.csv that tables show, separated by commas (default: TTFT, "
                 "TPOT, throughput and goodput)")
      .SplitAt(',');
  command.AddOption("--jobs", arguments->jobs, "Runs at a time (default: one per core)")
      .InRange(1, 1024);
  command.AddFlag("--accept-other-build", arguments->accept_other_build,
                  "Continue a folder of the same study that another build of twinserve began");
  command.AddFlag("--dry-run", arguments->dry_run, "Only print the points, as CSV");
  command.OnCall([arguments, &context] { Sweep(*arguments, context); });
}

}  // namespace twin::apps
