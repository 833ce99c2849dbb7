// Tables of a finished study: summary.csv has means and intervals over the replications of each
// point, differences.csv compares the experiments with the first one.
#pragma once

#include <filesystem>

#include "apps/study/study.h"

namespace twin::run {

constexpr double kStudyLevel = 0.95;  // of all intervals

// Reads a finished results.csv and writes one row per point: point, the study's columns, n (runs
// without an error), errors, saturated (the verdict of all runs, else undecided), and for each
// metric KEY, KEY_low and KEY_high: the mean over replications and its interval (Student's t),
// empty with fewer than two values. Where some runs without an error have no value of a metric,
// KEY_n follows: the number of values. KEY of a quantile is the mean of the runs' quantiles, not
// the quantile of all their requests. Texts such as digest are left out. Throws InputError,
// std::system_error.
void WriteStudySummary(const std::filesystem::path& results, const Study& study,
                       const std::filesystem::path& out);

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
