// The configurations of a recommendation as people read them.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>

#include "apps/recommend/recommendation.h"

namespace twin::run {

inline constexpr std::size_t kTableWidthMax = 100;  // columns of a terminal

// Four significant digits; "-" for what is not finite.
std::string DefinedText(double value);

// "252.6 [232.7, 269.5]"
std::string IntervalText(const Interval& interval);

// Writes the settings that all configurations share, a line each, and a table of the other ones
// with the value of the objective and the metrics of the bounds. Configurations with quantised
// weights have a table of their own, below. A row stands for all configurations with an equal
// result. Lines of tables have at most kTableWidthMax columns: names of columns are broken, and
// settings that do not fit follow in a further table, by rank. REQUIRES: a configuration.
void WriteConfigurations(std::ostream& out, const Recommendation& answer,
                         const RecommendConfig& request);

}  // namespace twin::run
