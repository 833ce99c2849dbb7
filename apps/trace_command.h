// twinserve trace: describes a trace, converts it to the format of twinserve, or draws a new one.
#pragma once

#include <CLI/CLI.hpp>

namespace twin::apps {

// Registers `trace` with its subcommands info, convert and generate. Their callbacks do the work:
// results on stdout, progress on a terminal's stderr. They throw InputError on bad input.
void AddTraceCommand(CLI::App& app);

// Registers `generate` alone; called by AddTraceCommand.
void AddTraceGenerateCommand(CLI::App& trace);

}  // namespace twin::apps
