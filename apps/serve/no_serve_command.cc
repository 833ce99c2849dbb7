// In a build without TWIN_SERVING.
#include "apps/commands.h"
#include "apps/missing_command.h"

namespace twin::apps {

void AddServeCommand(CLI::App& app, CommandContext& /*context*/) {
  AddMissingCommand(app, "serve", "TWIN_SERVING");
}

}  // namespace twin::apps
