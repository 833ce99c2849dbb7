// twinserve serve in a build without TWIN_SERVING: says so.
#include "apps/commands.h"
#include "core/input_error.h"

namespace twin::apps {

void AddServeCommand(CLI::App& app, CommandContext& /*context*/) {
  CLI::App* const command =
      app.add_subcommand("serve", "Not in this program: it was built without TWIN_SERVING");
  command->allow_extras();
  command->callback([] {
    throw InputError(InputError::Kind::kUsage, "serve",
                     "this program was built without it; allowed: programs built with "
                     "-DTWIN_SERVING=ON");
  });
}

}  // namespace twin::apps
