// RealRuns in a build without TWIN_EXEC.
#include "apps/missing_command.h"
#include "apps/run/real_runs.h"

namespace twin::apps {

struct RealRuns::Processes {};

RealRuns::RealRuns() = default;
RealRuns::~RealRuns() = default;

std::int32_t RealRuns::launched() const { return 1; }
std::int32_t RealRuns::rank() const { return 0; }

bool RealRuns::ReadTogether(const std::function<void()>& read) {
  read();
  return true;
}

bool RealRuns::Follow(const ExperimentConfig& /*config*/) { return false; }

run::RunOutcome RealRuns::Run(const ExperimentConfig& /*config*/,
                              const std::filesystem::path& /*out*/,
                              const std::vector<std::string>& /*command_line*/,
                              run::RunControl& /*control*/) {
  throw NotBuilt("world.real", "TWIN_EXEC");
}

}  // namespace twin::apps
