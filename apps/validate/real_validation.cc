#include "apps/validate/real_validation.h"

#include <fmt/format.h>

#include <iostream>

#include "apps/experiment_names.h"
#include "apps/terminal_control.h"
#include "apps/validate/validate_experiment.h"
#include "apps/validate/validation_report.h"
#include "config/experiment_config.h"
#include "exec/comm/mpi_ranks.h"

namespace twin::apps {

bool RunsAlone() { return exec::RunsAlone("validate"); }

void ValidateReal(const RealValidation& asked, CommandContext& context) {
  TerminalControl control;
  run::ValidationRequest request{
      .config = ReadExperiment(ExperimentFile(asked.experiment), asked.changes),
      .source = asked.experiment,
      .out = asked.out,
      .runs = {asked.runs.begin(), asked.runs.end()},
      .repeats = asked.repeats,
      .command_line = context.command_line};
  if (request.out.empty()) request.out = "runs/" + request.config.name + ".validation";
  const run::ValidationOutcome outcome = run::ValidateExperiment(request, control);
  if (!outcome.validation) {
    control.OnNote("interrupted: the same command continues where this one stopped");
    context.exit_code = 1;
    return;
  }
  if (asked.json) {
    std::cout << run::ValidationJson(*outcome.validation);
  } else {
    run::WriteValidationText(std::cout, *outcome.validation);
  }
  control.OnNote(fmt::format("wrote {}", outcome.page.string()));
  if (!outcome.validation->digest_equal) context.exit_code = 1;
}

}  // namespace twin::apps
