// summary.csv of a finished study: means and intervals over the replications of each point.
#pragma once

#include <filesystem>

#include "apps/study/study.h"

namespace twin::run {

constexpr double kStudyLevel = 0.95;  // of all intervals

// Reads a finished results.csv and writes one row per point: point, the study's columns, n (runs
// without an error), errors, saturated (the verdict of all runs, else undecided), and for each
// metric KEY, KEY_low and KEY_high: the mean over replications and its interval (MeanInterval),
// which is empty where the runs are too few (RunsWanted). Where some runs without an error have no
// value of a metric, KEY_n follows: the number of values. Where more than two runs are wanted at
// some point, KEY_runs_wanted follows: how many, or empty. KEY of a quantile is the mean of the
// runs' quantiles, not the quantile of all their requests. Texts such as digest are left out.
// Throws InputError, std::system_error.
void WriteStudySummary(const std::filesystem::path& results, const Study& study,
                       const std::filesystem::path& out);

}  // namespace twin::run
