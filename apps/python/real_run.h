// Runs in the real world, where the package was built with what runs models.
#pragma once

#include <string>
#include <vector>

#include "config/experiment_config.h"
#include "run/run_control.h"
#include "run/run_outcome.h"

namespace twin::python {

// As run::RunReal. Throws InputError (usage) in a build without TWIN_EXEC.
run::RunOutcome RunReal(const ExperimentConfig& config, const std::string& out,
                        const std::vector<std::string>& command_line, run::RunControl& control);

}  // namespace twin::python
