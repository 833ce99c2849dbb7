// twinserve validate: real runs, their replay, their prediction, and why they differ.
#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "apps/commands.h"
#include "apps/override_options.h"
#include "apps/terminal_control.h"
#include "exec/comm/mpi_ranks.h"
#include "lab/validation/validate_experiment.h"
#include "lab/validation/validation_report.h"
#include "proto/experiment_config.h"

namespace twin::apps {
namespace {

struct ValidateArguments {
  std::string experiment;
  std::vector<std::string> assignments;
  std::vector<std::string> runs;
  std::string out;
  std::string format = "table";
  int repeats = 2;
};

void Run(const ValidateArguments& arguments, CommandContext& context) {
  if (!exec::RunsAlone("validate")) return;
  TerminalControl control;
  lab::ValidationRequest request{
      .config = ReadExperiment(arguments.experiment, arguments.assignments),
      .source = arguments.experiment,
      .out = arguments.out,
      .runs = {arguments.runs.begin(), arguments.runs.end()},
      .repeats = arguments.repeats,
      .command_line = context.command_line};
  if (request.out.empty()) request.out = "runs/" + request.config.name + ".validation";
  const lab::ValidationOutcome outcome = lab::ValidateExperiment(request, control);
  if (!outcome.validation) {
    control.OnNote("interrupted: the same command continues where this one stopped");
    context.exit_code = 1;
    return;
  }
  if (arguments.format == "json") {
    std::cout << lab::ValidationJson(*outcome.validation);
  } else {
    lab::WriteValidationText(std::cout, *outcome.validation);
  }
  control.OnNote(fmt::format("wrote {}", outcome.page.string()));
  if (!outcome.validation->digest_equal) context.exit_code = 1;
}

}  // namespace

void AddValidateCommand(CLI::App& app, CommandContext& context) {
  auto arguments = std::make_shared<ValidateArguments>();
  CLI::App* command =
      app.add_subcommand("validate", "Measure, replay and predict an experiment; attribute errors");
  command->add_option("EXPERIMENT", arguments->experiment, "Experiment with a real world")
      ->required();
  AddOverrideOptions(*command, arguments->assignments);
  command->add_option("--out", arguments->out, "Folder (default: runs/NAME.validation)");
  command
      ->add_option("--repeats", arguments->repeats,
                   "Real runs; from two on, their noise is told (default 2)")
      ->check(CLI::Range(1, 100));
  command->add_option("--runs", arguments->runs, "Run directories to compare instead of new runs");
  command->add_option("--format", arguments->format, "Form of the results on stdout")
      ->check(CLI::IsMember({"table", "json"}));
  command->callback([arguments, &context] { Run(*arguments, context); });
}

}  // namespace twin::apps
