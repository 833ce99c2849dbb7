// The folder that a run leaves behind.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "files/output_file.h"
#include "lab/partial_directory.h"
#include "lab/run_control.h"
#include "record/summary.h"

namespace twin::lab {

// Collects a run's files beside `path` and puts them there on Commit() (lab/partial_directory.h),
// or in it from the start, for runs whose files count even if the process is killed. An existing
// `path` is replaced if it is a run directory (it holds summary.json and config.resolved.textproto)
// or empty, and refused with InputError (usage) otherwise. The current folder and the folders above
// it are refused too.
class RunDirectory {
 public:
  using Appearance = OutputFile::Appearance;

  // Notes the removal of what killed runs left behind on `control`, if given. Throws
  // std::system_error if the folder cannot be made.
  explicit RunDirectory(const std::filesystem::path& path, RunControl* control = nullptr,
                        Appearance appearance = Appearance::kWhenComplete);

  // Where to write a file of the run before Commit().
  [[nodiscard]] std::filesystem::path File(const std::string& name) const {
    return (partial_ ? partial_->path() : path_) / name;
  }
  [[nodiscard]] Appearance appearance() const {
    return partial_ ? Appearance::kWhenComplete : Appearance::kAtOnce;
  }

  void WriteText(const std::string& name, const std::string& text) const;
  void Commit() {
    if (partial_) partial_->Commit();
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::optional<PartialDirectory> partial_;
};

// summary.json of a run directory; entries that are null are left out.
// Throws InputError: there is none (usage), it is no JSON object (data).
Summary ReadSummary(const std::filesystem::path& run);

// The name of a run: the last component of its path, which may end with a slash.
std::string RunName(const std::filesystem::path& path);

}  // namespace twin::lab
