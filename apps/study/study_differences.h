// differences.csv: the experiments of a study against the first one.
#pragma once

#include <filesystem>

#include "apps/study/study.h"

namespace twin::run {

// Writes `out` from the finished results.csv of a study with several bases: a row per point after
// those of the first base and metric, with the difference from the first base at the same values,
// from pairs of equal seeds (output_statistics.h, ComparePaired). Rows of a metric without any
// difference are left out.
//
// Among many rows some differ by chance: of 79 metrics, at least one in two thirds of the studies
// whose experiments behave alike. So the rows of the study's primary metrics share one error of
// 1 - kStudyLevel (Holm): p_adjusted and `significant` are theirs alone. All other rows are
// exploratory, with intervals for each alone. Where the runs are too few for an interval
// (runs_wanted.h), there is no p_value either.
void WriteStudyDifferences(const std::filesystem::path& results, const Study& study,
                           const std::filesystem::path& out);

}  // namespace twin::run
