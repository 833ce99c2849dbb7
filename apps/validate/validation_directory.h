// The output folder of a validation.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/validate/validation.h"

namespace twin::run {

// PATH/real_1, real_2, ... and PATH/simulated are run directories. validation.json, report.txt and
// report.html hold the results.
class ValidationDirectory {
 public:
  // Checks the path and changes nothing. Throws InputError (usage) if `path` exists and is neither
  // an empty folder nor an earlier validation, or if it is the current folder or one above it.
  explicit ValidationDirectory(std::filesystem::path path);

  // Prepares the folder for real runs of the experiment that `key` identifies. Runs of an earlier
  // call with the same key stay if that call was interrupted before it compared them. Otherwise the
  // files and folders named above are removed, and nothing else.
  void BeginMeasuring(const std::string& key) const;
  // Prepares the folder for a comparison of existing runs, in this folder or elsewhere.
  void BeginComparing() const;

  [[nodiscard]] std::filesystem::path Real(int number) const {
    return path_ / ("real_" + std::to_string(number));
  }
  [[nodiscard]] std::filesystem::path Simulated() const { return path_ / "simulated"; }
  [[nodiscard]] std::filesystem::path Page() const { return path_ / "report.html"; }

  // Writes each file under a temporary name and renames it; validation.json comes last.
  void Write(const Validation& validation) const;

 private:
  void MarkAs(const std::string& key) const;

  std::filesystem::path path_;
};

// True for the directory of a real run that was not interrupted.
bool IsCompleteRun(const std::filesystem::path& run);

// The content of a file; empty if it cannot be read.
std::string FileText(const std::filesystem::path& file);

}  // namespace twin::run
