// twinserve validate: real runs of this program, runs of its server, and measured runs of other
// servers, each beside its prediction.
#include <fmt/format.h>

#include <array>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "apps/built_parts.h"
#include "apps/commands.h"
#include "apps/missing_command.h"
#include "apps/options.h"
#include "apps/terminal_control.h"
#include "apps/validate/measured_command.h"
#include "apps/validate/real_validation.h"
#include "core/input_error.h"
#include "run/record/metric_catalog.h"
#include "run/record/metric_table.h"
#include "run/served_run.h"

namespace twin::apps {
namespace {

struct ValidateArguments {
  RealValidation real;  // its folder, changes and format are also those of the other forms
  std::string served;
  std::string format = "table";
  MeasuredArguments measured;
};

void PrintServed(const run::ServedComparison& comparison, const std::string& format) {
  if (format == "json") {
    std::cout << run::ServedComparisonJson(comparison);
    return;
  }
  const std::array<NamedSummary, 2> columns = {NamedSummary{"served", &comparison.served.measured},
                                               NamedSummary{"simulated", &comparison.simulated}};
  WriteTable(std::cout, MetricTable(columns, HeadlineMetrics()), TableFormat::kText);
}

void CompareServed(const ValidateArguments& arguments, CommandContext& context) {
  TerminalControl control;
  const run::ServedComparison comparison =
      run::CompareServedRun(arguments.served, arguments.real.changes, control);
  const run::ServedRun& served = comparison.served;
  if (served.replay.difference) {
    std::cout << served.replay.difference->text() << "\n";
    context.exit_code = 1;
    return;
  }
  PrintServed(comparison, arguments.format);
  control.OnNote(
      fmt::format("{} requests, {} of which did not complete, and {} refused; digest {}{}",
                  served.requests.size(), served.departures.size(), served.refused.size(),
                  served.replay.digest_text, served.complete ? "" : "; the record has no end"));
}

void Run(ValidateArguments& arguments, CommandContext& context) {
  if constexpr (kHasExec) {
    if (!RunsAlone()) return;
  }
  if (!arguments.measured.files.empty()) {
    if (arguments.format == "json") {
      throw InputError(InputError::Kind::kUsage, "validate: --format",
                       "is json; allowed with --measured: table, beside errors.csv and parts.csv");
    }
    CompareMeasuredRuns(arguments.measured, arguments.real.changes, arguments.real.out);
    return;
  }
  RefuseMeasuredOptions(arguments.measured);
  if (!arguments.served.empty()) {
    CompareServed(arguments, context);
    return;
  }
  if (arguments.real.experiment.empty()) {
    throw InputError(InputError::Kind::kUsage, "EXPERIMENT",
                     "is missing; allowed: without it, --served or --measured");
  }
  arguments.real.json = arguments.format == "json";
  if constexpr (!kHasExec) {
    throw NotBuilt("validate: EXPERIMENT, a run of a model", "TWIN_EXEC");
  } else {
    ValidateReal(arguments.real, context);
  }
}

}  // namespace

void AddValidateCommand(CommandParser app, CommandContext& context) {
  auto arguments = std::make_shared<ValidateArguments>();
  RealValidation& real = arguments->real;
  CommandParser command =
      app.AddCommand("validate",
                     "Compare real or measured runs with their prediction; attribute "
                     "errors");
  CommandOption experiment =
      command.AddOption("EXPERIMENT", real.experiment, "Experiment with a real world");
  AddOverrideOptions(command, real.changes);
  command.AddOption("--out", real.out,
                    "Folder to write (default: runs/NAME.validation, or .measured)");
  command
      .AddOption("--repeats", real.repeats,
                 "Number of real runs (default: 2); two or more show how much equal runs differ")
      .InRange(1, 100);
  CommandOption runs =
      command.AddOption("--runs", real.runs, "Run directories to compare instead of new runs");
  CommandOption served =
      command
          .AddOption("--served", arguments->served,
                     "Run directory of `twinserve serve`: simulate what its clients did, and "
                     "compare")
          .Excludes(experiment);
  AddMeasuredOptions(command, context.command_line, arguments->measured)
      .Excludes(experiment)
      .Excludes(runs)
      .Excludes(served);
  command.AddOption("--format", arguments->format, "What to print (default: table)")
      .OneOf({"table", "json"});
  command.OnCall([arguments, &context] { Run(*arguments, context); });
}

}  // namespace twin::apps
