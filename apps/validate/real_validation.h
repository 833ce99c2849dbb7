// The part of `validate` that runs models, in builds with TWIN_EXEC.
#pragma once

#include <string>
#include <vector>

#include "apps/commands.h"

namespace twin::apps {

struct RealValidation {
  std::string experiment;
  std::vector<std::string> changes;
  std::vector<std::string> runs;
  std::string out;
  bool json = false;
  int repeats = 2;
};

// False in the processes of other MPI ranks, which have nothing to do.
bool RunsAlone();

// Measures, replays and predicts the experiment, writes the folder, and prints the result. Throws
// InputError.
void ValidateReal(const RealValidation& asked, CommandContext& context);

}  // namespace twin::apps
