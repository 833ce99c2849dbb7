// twinserve predict energy: power of a table of deployments.
#pragma once

#include "apps/commands.h"
#include "apps/options.h"

namespace twin::apps {

void AddPredictEnergyCommand(CommandParser predict, CommandContext& context);

}  // namespace twin::apps
