// timing.csv of a study: wall time per run, in the order in which they finished.
#pragma once

#include <filesystem>
#include <fstream>

#include "apps/study/study_runner.h"

namespace twin::run {

// Columns: point, replication, wall_seconds. Not part of the results: a row that is lost changes
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

}  // namespace twin::run
