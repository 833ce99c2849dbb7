// Commands that a build without TWIN_EXEC lacks.
#include "apps/commands.h"
#include "apps/missing_command.h"

namespace twin::apps {

void AddGenerateCommand(CommandParser app, CommandContext& /*context*/) {
  AddMissingCommand(app, "generate", "TWIN_EXEC");
}

void AddBenchCommand(CommandParser app, CommandContext& /*context*/) {
  AddMissingCommand(app, "bench", "TWIN_EXEC");
}

void AddProfileCommand(CommandParser app, CommandContext& /*context*/) {
  AddMissingCommand(app, "profile", "TWIN_EXEC");
}

void AddFitCommand(CommandParser app, CommandContext& /*context*/,
                   void (* /*fit_steps*/)(const FitStepsArguments&)) {
  AddMissingCommand(app, "fit", "TWIN_EXEC");
}

}  // namespace twin::apps
