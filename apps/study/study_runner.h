// Runs rows of a study in this process, several at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "apps/study/study.h"
#include "run/record/summary.h"
#include "run/run_control.h"

namespace twin::run {

// One finished row. Equal in every study with the same hash, except for wall_seconds.
struct StudyRow {
  StudyRowId id;
  std::uint64_t seed = 0;
  // Summary of the run, without the use of the process (cpu_seconds, peak_rss_mib) and
  // `interrupted`, and with two more entries: warmup_requests (left out by the metrics) and
  // warmup_rule (none, head_share, mser5, or mser5_too_short: the rule finds no steady state, so
  // nothing is left out). With mser5, points that differ in their base alone leave out the same
  // number, the largest. Empty if the run failed.
  Summary summary = {};
  std::string error = {};  // one line; empty: none
  double wall_seconds = 0;
};

struct StudyRunOptions {
  int jobs = 0;  // runs at a time; 0: as many as the machine has cores
  // Folder for the run directories of the points that keep them; empty: none do. They hold the runs
  // of the configurations as they are, without a warm-up that mser5 found.
  std::filesystem::path runs_folder;
  std::vector<std::string> command_line;  // for their provenance.json
  // False: runs stay in this process whatever their policy, as in a worker of a cluster.
  bool may_fork = true;
};

// The run directory of a row.
std::filesystem::path RunFolderOf(const std::filesystem::path& runs_folder, const StudyRowId& row);

// Runs the rows (indices of Study::RowAt) on up to `jobs` threads, or in as many processes where a
// policy wants that (Study::Fork), and hands each finished one to
// `on_row`, in the order in which they finish. Rows depend neither on that order nor on the number
// of threads. A run that fails is a row with its error. Warnings and notes of runs are passed on to
// `control`, each text once (distinct_reports.h).
// `on_row` and `control` are called on the calling thread only, which runs no rows itself; a
// request to stop drops the rows that are running and returns. An exception of `on_row` ends the
// study.
void RunStudy(const Study& study, std::span<const std::size_t> rows, const StudyRunOptions& options,
              RunControl& control, const std::function<void(const StudyRow&)>& on_row);

}  // namespace twin::run
