// Programs started by mpirun, as their users would.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace twin::testing {

struct MpiJobOutcome {
  int exit_code = -1;
  std::string out;  // of all ranks
  std::string err;  // likewise, and mpirun's own words
  double seconds = 0;
};

// Runs `words` (program and arguments) as `ranks` processes in `folder` and waits for their end. A
// job that is not over behind `seconds_max` is killed, and says 124.
MpiJobOutcome RunMpiJob(const std::filesystem::path& folder, int ranks,
                        const std::vector<std::string>& words, int seconds_max = 120);

}  // namespace twin::testing
