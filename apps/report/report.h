// One HTML page about runs or about a study, for a browser without network.
#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace twin::run {

// Whether `path` is the folder of a sweep: it has summary.csv.
bool IsStudy(const std::filesystem::path& path);

// The page of one run, a run directory or a file of a measured run: its verdict, metrics with
// intervals, configuration, and figures of latencies, load and steps; of several runs side by side.
// Throws InputError: a path is no run directory, or the program has no Plotly (usage); a file is
// damaged (data). REQUIRES: at least one run.
std::string RunsPage(std::span<const std::filesystem::path> paths);

// The page of a study: each metric against the axis, attainment, the table of points. Throws
// InputError: the folder has no points (usage), a file is damaged (data).
std::string StudyPage(const std::filesystem::path& study);

}  // namespace twin::run
