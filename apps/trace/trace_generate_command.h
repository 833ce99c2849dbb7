// twinserve trace generate: draws a new trace.
#pragma once

#include "apps/options.h"

namespace twin::apps {

// Registers `generate` as a subcommand of `trace`.
void AddTraceGenerateCommand(CommandParser trace);

}  // namespace twin::apps
