// Commands that a build without TWIN_STUDIES lacks.
#include "apps/commands.h"
#include "apps/fit_steps_command.h"
#include "apps/missing_command.h"

namespace twin::apps {

void AddSweepCommand(CommandParser app, CommandContext& /*context*/) {
  AddMissingCommand(app, "sweep", "TWIN_STUDIES");
}

void AddCapacityCommand(CommandParser app, CommandContext& /*context*/) {
  AddMissingCommand(app, "capacity", "TWIN_STUDIES");
}

void AddBoundsCommand(CommandParser app, CommandContext& /*context*/) {
  AddMissingCommand(app, "bounds", "TWIN_STUDIES");
}

void AddJudgeCommand(CommandParser app, CommandContext& /*context*/) {
  AddMissingCommand(app, "judge", "TWIN_STUDIES");
}

void SetPolicyHostCommand(std::vector<std::string> /*words*/, std::vector<std::string> /*paths*/) {}

void AddRecommendCommand(CommandParser app, CommandContext& /*context*/) {
  AddMissingCommand(app, "recommend", "TWIN_STUDIES");
}

void AddScheduleCommand(CommandParser app, CommandContext& /*context*/) {
  AddMissingCommand(app, "schedule", "TWIN_STUDIES");
}

void AddImportCommand(CommandParser app, CommandContext& /*context*/) {
  AddMissingCommand(app, "import", "TWIN_STUDIES");
}

void AddPredictCommand(CommandParser app, CommandContext& /*context*/) {
  AddMissingCommand(app, "predict", "TWIN_STUDIES");
}

void FitSteps(const FitStepsArguments& /*arguments*/) {
  throw NotBuilt("fit --steps", "TWIN_STUDIES");
}

void AddReportCommand(CommandParser app, CommandContext& /*context*/) {
  AddMissingCommand(app, "report", "TWIN_STUDIES");
}

}  // namespace twin::apps
