// A study in a folder: results that survive an interruption, and continue.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "apps/study/folder_lock.h"
#include "apps/study/results_file.h"
#include "apps/study/study.h"
#include "apps/study/study_runner.h"
#include "run/run_control.h"

namespace twin::run {

struct SweepOutcome {
  std::size_t rows = 0;         // of the study
  std::size_t done_before = 0;  // by an earlier call
  std::size_t done = 0;         // in all, with or without an error
  std::size_t failed = 0;       // rows with an error
  bool interrupted = false;     // `control` asked to stop before all rows were there
};

// timing.csv of a study: wall time per run, in the order in which they finished. Columns: point,
// replication, wall_seconds. Not part of the results: a row that is lost changes
// nothing else, and failures to write are ignored.
class TimingFile {
 public:
  // Continues the file, or begins it with its header. A last line without its end, which a killed
  // process left, is cut off.
  explicit TimingFile(const std::filesystem::path& path);

  void Append(const StudyRow& row);

 private:
  std::ofstream out_;
};

// The folder of a study while rows are added to it:
//
//   study.json    the resolved study with its hash and the builds that made the rows
//   results.csv   one row per run (results_file.h)
//   summary.csv   one row per point (study_summary.h)
//   differences.csv   with several bases: each one against the first (study_differences.h)
//   timing.csv    wall time per run, in the order in which they finished
//   runs/         run directories of the points that keep them, POINT_REPLICATION
//
// A folder of a study with the same hash is continued, as is one of a study that differs in fewer
// values of axes or fewer replications: its rows are kept, and timing.csv begins anew if points get
// other numbers. Rows with an error, and rows whose run
// directory is wanted and missing, are made again. Only rows that were not appended are lost if the
// process is killed; the half-written files that it left are removed.
class StudyDirectory {
 public:
  // Borrows the study; creates the folder if it is missing. `accept_other_build`: continues one
  // that another build began. Throws InputError (usage) if the folder holds something else, rows of
  // another build (unless these are accepted), or another process works in it; std::system_error.
  StudyDirectory(const Study& study, const std::filesystem::path& out, bool accept_other_build);
  ~StudyDirectory();
  StudyDirectory(const StudyDirectory&) = delete;
  StudyDirectory& operator=(const StudyDirectory&) = delete;

  // Rows (Study::RowAt) that were not there in the beginning, in rising order.
  [[nodiscard]] const std::vector<std::size_t>& missing() const { return missing_; }
  [[nodiscard]] const std::filesystem::path& runs_folder() const { return runs_; }

  // Adds a missing row; warns of the first errors. Throws std::system_error.
  void Append(const StudyRow& row, RunControl& control);

  // Puts the rows in order and writes the tables made of them. Throws std::system_error.
  SweepOutcome Finish();

 private:
  const Study& study_;
  const std::filesystem::path out_;
  const std::filesystem::path runs_;
  std::unique_ptr<FolderLock> lock_;
  std::unique_ptr<ResultsFile> results_;
  std::unique_ptr<TimingFile> timing_;
  std::vector<std::size_t> missing_;
  std::size_t made_ = 0;
};

struct SweepOptions {
  int jobs = 0;                           // runs at a time; 0: one per core
  std::vector<std::string> command_line;  // for provenance.json of run directories
  bool accept_other_build = false;
};

// Runs the rows of the study that the folder does not hold yet, in this process. Warns of the first
// errors, and passes on each warning and note of a run once. Throws as StudyDirectory.
SweepOutcome RunSweep(const Study& study, const std::filesystem::path& out,
                      const SweepOptions& options, RunControl& control);

}  // namespace twin::run
