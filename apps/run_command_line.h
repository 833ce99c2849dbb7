// The twinserve program without its main function.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace twin::apps {

// A command that lies outside of the program, as those of the Python package do.
struct FurtherCommand {
  std::string name;
  std::string help;  // one line
  // Takes what follows the name, options included, and returns the exit code.
  std::function<int(const std::vector<std::string>& arguments)> call;
};

// Executes a command line and returns the exit code. This is the only place that catches
// exceptions: each becomes one line on stderr.
int RunCommandLine(int argc, char** argv, std::span<const FurtherCommand> further = {});

}  // namespace twin::apps
