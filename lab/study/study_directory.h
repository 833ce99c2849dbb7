// A study in a folder: results that survive an interruption, and continue.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "lab/run_control.h"
#include "lab/study/study.h"

namespace twin::lab {

struct SweepOutcome {
  std::size_t rows = 0;         // of the study
  std::size_t done_before = 0;  // by an earlier call
  std::size_t done = 0;         // in all, with or without an error
  std::size_t failed = 0;       // rows with an error
  bool interrupted = false;     // `control` asked to stop before all rows were there
};

struct SweepOptions {
  int jobs = 0;                           // runs at a time; 0: one per core
  std::vector<std::string> command_line;  // for provenance.json of run directories
  // Continues a folder of the same study that another build began.
  bool accept_other_build = false;
};

// Runs the rows of the study that `out` does not hold yet, and writes into it
//
//   study.json    the resolved study with its hash and the builds that made the rows
//   results.csv   one row per run (results_file.h)
//   summary.csv   one row per point (study_summary.h)
//   differences.csv   with several bases: the others against the first (study_differences.h)
//   timing.csv    wall time per run, in the order in which they finished
//   runs/         run directories of the points that keep them, POINT_REPLICATION
//
// A folder of a study with the same hash is continued; rows with an error, and rows whose run
// directory is wanted and missing, are made again. Only the rows that are running are lost if the
// process is killed; what it left of half-written files is removed.
// Warns of the first errors, and passes on each warning and note of a run once. Throws InputError
// (usage) if the folder holds something else, rows of another build (unless these are accepted), or
// another process works in it; std::system_error.
SweepOutcome RunSweep(const Study& study, const std::filesystem::path& out,
                      const SweepOptions& options, RunControl& control);

}  // namespace twin::lab
