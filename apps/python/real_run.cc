#include "apps/python/real_run.h"

#include "run/real/real_run.h"

namespace twin::python {

run::RunOutcome RunReal(const ExperimentConfig& config, const std::string& out,
                        const std::vector<std::string>& command_line, run::RunControl& control) {
  return run::RunReal(config, out, command_line, control);
}

}  // namespace twin::python
