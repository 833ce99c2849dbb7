// Commands that a build without TWIN_EXEC lacks.
#include "apps/commands.h"
#include "apps/missing_command.h"

namespace twin::apps {

void AddValidateCommand(CLI::App& app, CommandContext& /*context*/) {
  AddMissingCommand(app, "validate", "TWIN_EXEC");
}

void AddGenerateCommand(CLI::App& app, CommandContext& /*context*/) {
  AddMissingCommand(app, "generate", "TWIN_EXEC");
}

void AddBenchCommand(CLI::App& app, CommandContext& /*context*/) {
  AddMissingCommand(app, "bench", "TWIN_EXEC");
}

void AddProfileCommand(CLI::App& app, CommandContext& /*context*/) {
  AddMissingCommand(app, "profile", "TWIN_EXEC");
}

void AddFitCommand(CLI::App& app, CommandContext& /*context*/,
                   void (* /*fit_steps*/)(const FitStepsArguments&)) {
  AddMissingCommand(app, "fit", "TWIN_EXEC");
}

}  // namespace twin::apps
