// RunReal in a build without TWIN_EXEC.
#include "apps/missing_command.h"
#include "apps/python/real_run.h"

namespace twin::python {

run::RunOutcome RunReal(const ExperimentConfig& /*config*/, const std::string& /*out*/,
                        const std::vector<std::string>& /*command_line*/,
                        run::RunControl& /*control*/) {
  throw apps::NotBuilt("world.real", "TWIN_EXEC");
}

}  // namespace twin::python
