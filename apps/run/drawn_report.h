// Prints a comparison under uncertainty (run/uncertainty_comparison.h).
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "run/uncertainty_comparison.h"

namespace twin::apps {

// `names`: of the experiments, one or two.
void PrintDraws(std::ostream& out, const std::vector<std::string>& names,
                const run::UncertaintyComparison& comparison);

nlohmann::ordered_json DrawsJson(const run::UncertaintyComparison& comparison);

}  // namespace twin::apps
