// twinserve predict serving: latencies of a table of deployments.
#pragma once

#include "apps/commands.h"
#include "apps/options.h"

namespace twin::apps {

void AddPredictServingCommand(CommandParser predict, CommandContext& context);

}  // namespace twin::apps
