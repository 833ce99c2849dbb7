// The command that a build without TWIN_SERVING lacks.
#include "apps/commands.h"
#include "apps/missing_command.h"

namespace twin::apps {

void AddServeCommand(CommandParser app, CommandContext& /*context*/) {
  AddMissingCommand(app, "serve", "TWIN_SERVING");
}

}  // namespace twin::apps
