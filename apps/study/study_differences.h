// differences.csv of a study: its experiments compared with the first one, point by point.
#pragma once

#include <filesystem>

#include "apps/study/study.h"

namespace twin::run {

// Reads a finished results.csv of a study with several bases and writes a row per point of the
// second base on and metric: point, baseline (the point of the first base with the same values),
// the study's columns, metric, n, difference, difference_low, difference_high, ratio, ratio_low,
// ratio_high, correlation. Differences are point - baseline of the same seeds with a paired t
// interval, ratios point / baseline from logarithms, empty unless all values are positive. The
// confidence is 95 % for the comparisons of a metric at one point together (Bonferroni). Metrics
// that are equal in all runs are left out. Throws InputError, std::system_error.
void WriteStudyDifferences(const std::filesystem::path& results, const Study& study,
                           const std::filesystem::path& out);

}  // namespace twin::run
