// The part of `twinserve predict` that knows whole steps.
#pragma once

#include <CLI/CLI.hpp>

namespace twin::apps {

// predict steps: a table of steps. predict breakdown: one step or one run by class of operation.
void AddPredictStepsCommands(CLI::App& predict);

}  // namespace twin::apps
