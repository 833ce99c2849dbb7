// The folder that a run leaves behind.
#pragma once

#include <filesystem>
#include <string>

#include "lab/partial_directory.h"
#include "lab/run_control.h"
#include "record/summary.h"

namespace twin::lab {

// Collects a run's files beside `path` and puts them there on Commit() (lab/partial_directory.h).
// An existing `path` is replaced if it is a run directory (it holds summary.json and
// config.resolved.textproto) or empty, and refused with InputError (usage) otherwise. The current
// folder and the folders above it are refused too.
class RunDirectory {
 public:
  // Notes the removal of what killed runs left behind on `control`, if given.
  explicit RunDirectory(const std::filesystem::path& path, RunControl* control = nullptr);

  // Where to write a file of the run before Commit().
  [[nodiscard]] std::filesystem::path File(const std::string& name) const {
    return partial_.path() / name;
  }

  void WriteText(const std::string& name, const std::string& text) const;
  void Commit() { partial_.Commit(); }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  PartialDirectory partial_;
};

// summary.json of a run directory; entries that are null are left out.
// Throws InputError: there is none (usage), it is no JSON object (data).
Summary ReadSummary(const std::filesystem::path& run);

// The name of a run: the last component of its path, which may end with a slash.
std::string RunName(const std::filesystem::path& path);

}  // namespace twin::lab
