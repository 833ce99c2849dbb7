// Prints a comparison under uncertainty (lab/drawn_comparison.h).
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "lab/drawn_comparison.h"

namespace twin::apps {

// `names`: of the experiments, one or two.
void PrintDraws(std::ostream& out, const std::vector<std::string>& names,
                const lab::DrawnComparison& comparison);

nlohmann::ordered_json DrawsJson(const lab::DrawnComparison& comparison);

}  // namespace twin::apps
