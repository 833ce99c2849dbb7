// The options --set and --unset of every command that reads an experiment.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace twin::apps {

struct OverrideOptions {
  CLI::Option* set;
  CLI::Option* unset;
};

// Appends the changes to `changes` in the order of the command line, in the form of
// config/override.h. `changes` must outlive the parsing.
OverrideOptions AddOverrideOptions(CLI::App& command, std::vector<std::string>& changes);

}  // namespace twin::apps
