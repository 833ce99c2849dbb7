// The part of `twinserve predict` that knows whole steps.
#pragma once

#include "apps/options.h"

namespace twin::apps {

// predict steps: a table of steps. predict breakdown: one step or one run by class of operation.
void AddPredictStepsCommands(CommandParser predict);

}  // namespace twin::apps
