// The workloads, systems and loads on which policies are judged, from a folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "run/judge/judge.h"

namespace twin::apps {

// Shares of what the default policy can serve. Below 1 policies hardly differ.
inline constexpr double kJudgedLoads[] = {0.6, 1.1, 1.5};

// All cells of a folder: its experiments (whose names do not begin with _), each on each row of
// systems.csv (system, model, hardware, cost), at each load. capacity.csv (workload, system,
// requests_per_s) holds what the default policy serves. Throws InputError: a file or row that is
// missing or bad.
std::vector<run::JudgedCell> ReadJudgedSet(const std::filesystem::path& folder);

// `per_workload` cells of each workload, drawn from the seed; all if there are no more.
// `load_min`: only loads from there.
std::vector<run::JudgedCell> DrawCells(const std::vector<run::JudgedCell>& cells,
                                       std::size_t per_workload, double load_min,
                                       std::uint64_t seed);

// A hash of the content of the experiments, for verdicts.
std::uint64_t HashOf(const std::vector<run::JudgedCell>& cells);

}  // namespace twin::apps
