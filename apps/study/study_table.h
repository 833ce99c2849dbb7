// The points of a finished study as a table, and as JSON.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "apps/study/study.h"
#include "run/record/table.h"

namespace twin::run {

// The metrics that a table of the study shows: `asked`, or main ones if nothing is. Throws
// InputError (usage) if no row of a study has one that was asked for.
std::vector<std::string> MetricsToShow(const Study& study, std::span<const std::string> asked);

// A row per point of summary.csv: what the study varies, runs without an error, whether they are
// saturated, and the mean of each metric with its interval. The best of the points that share all
// values of `workload`, and are not saturated, is marked where intervals decide it. Leaves out
// columns without a value. Throws InputError if the file is no summary.csv of the study.
Table StudyTable(const Study& study, const std::filesystem::path& summary,
                 std::span<const std::string> metrics);

// Whether a cell of the table says how many runs an interval wants.
bool LacksRuns(const Table& table);

// The points as JSON: {"points": [{"point", "settings", "n", "errors", "saturated", "metrics":
// {KEY: {"mean", "low", "high"}}}]}, with all metrics of summary.csv; null for undefined numbers.
// "runs_wanted" follows where the runs are too few for an interval.
void WriteStudyPoints(std::ostream& out, const Study& study, const std::filesystem::path& summary);

}  // namespace twin::run
