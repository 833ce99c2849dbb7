// twinserve trace generate: draws a new trace.
#pragma once

#include <CLI/CLI.hpp>

namespace twin::apps {

// Registers `generate` as a subcommand of `trace`.
void AddTraceGenerateCommand(CLI::App& trace);

}  // namespace twin::apps
