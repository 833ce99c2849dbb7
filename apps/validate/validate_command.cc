// twinserve validate: real runs, their replay, their prediction, and why they differ.
#include <fmt/format.h>

#include <array>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "apps/commands.h"
#include "apps/experiment_names.h"
#include "apps/options.h"
#include "apps/terminal_control.h"
#include "apps/validate/validate_experiment.h"
#include "apps/validate/validation_report.h"
#include "config/experiment_config.h"
#include "core/input_error.h"
#include "exec/comm/mpi_ranks.h"
#include "run/record/metric_catalog.h"
#include "run/record/metric_table.h"
#include "run/served_run.h"

namespace twin::apps {
namespace {

struct ValidateArguments {
  std::string experiment;
  std::vector<std::string> assignments;
  std::vector<std::string> runs;
  std::string served;
  std::string out;
  std::string format = "table";
  int repeats = 2;
};

void PrintServed(const run::ServedComparison& comparison, const std::string& format) {
  if (format == "json") {
    std::cout << run::ServedComparisonJson(comparison);
    return;
  }
  const std::array<NamedSummary, 2> columns = {NamedSummary{"served", &comparison.served.measured},
                                               NamedSummary{"simulated", &comparison.simulated}};
  const std::vector<std::string> names(HeadlineMetrics().begin(), HeadlineMetrics().end());
  WriteTable(std::cout, MetricTable(columns, names), TableFormat::kText);
}

void CompareServed(const ValidateArguments& arguments, CommandContext& context) {
  TerminalControl control;
  const run::ServedComparison comparison =
      run::CompareServedRun(arguments.served, arguments.assignments, control);
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

void Run(const ValidateArguments& arguments, CommandContext& context) {
  if (!exec::RunsAlone("validate")) return;
  if (!arguments.served.empty()) {
    CompareServed(arguments, context);
    return;
  }
  if (arguments.experiment.empty()) {
    throw InputError(InputError::Kind::kUsage, "EXPERIMENT",
                     "is missing; allowed: without it, --served");
  }
  TerminalControl control;
  run::ValidationRequest request{
      .config = ReadExperiment(ExperimentFile(arguments.experiment), arguments.assignments),
      .source = arguments.experiment,
      .out = arguments.out,
      .runs = {arguments.runs.begin(), arguments.runs.end()},
      .repeats = arguments.repeats,
      .command_line = context.command_line};
  if (request.out.empty()) request.out = "runs/" + request.config.name + ".validation";
  const run::ValidationOutcome outcome = run::ValidateExperiment(request, control);
  if (!outcome.validation) {
    control.OnNote("interrupted: the same command continues where this one stopped");
    context.exit_code = 1;
    return;
  }
  if (arguments.format == "json") {
    std::cout << run::ValidationJson(*outcome.validation);
  } else {
    run::WriteValidationText(std::cout, *outcome.validation);
  }
  control.OnNote(fmt::format("wrote {}", outcome.page.string()));
  if (!outcome.validation->digest_equal) context.exit_code = 1;
}

}  // namespace

void AddValidateCommand(CommandParser app, CommandContext& context) {
  auto arguments = std::make_shared<ValidateArguments>();
  CommandParser command =
      app.AddCommand("validate", "Measure, replay and predict an experiment; attribute errors");
  CommandOption experiment =
      command.AddOption("EXPERIMENT", arguments->experiment, "Experiment with a real world");
  AddOverrideOptions(command, arguments->assignments);
  command.AddOption("--out", arguments->out, "Folder to write (default: runs/NAME.validation)");
  command
      .AddOption("--repeats", arguments->repeats,
                 "Number of real runs (default: 2); two or more show how much equal runs differ")
      .InRange(1, 100);
  command.AddOption("--runs", arguments->runs, "Run directories to compare instead of new runs");
  command
      .AddOption("--served", arguments->served,
                 "Run directory of `twinserve serve`: simulate what its clients did, and compare")
      .Excludes(experiment);
  command.AddOption("--format", arguments->format, "What to print (default: table)")
      .OneOf({"table", "json"});
  command.OnCall([arguments, &context] { Run(*arguments, context); });
}

}  // namespace twin::apps
