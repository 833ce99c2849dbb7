// The folder that holds the results of a run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "core/files/output_file.h"
#include "run/partial_directory.h"
#include "run/record/summary.h"
#include "run/run_control.h"

namespace twin::run {

// Collects a run's files beside `path` and puts them there on Commit() (run/partial_directory.h).
// With another Appearance, writes into `path` from the start, for runs whose files count even if
// the process is killed: the earlier content of `path` is kept as PATH.old.NUMBER until Commit(),
// and restored without Commit(). An existing `path` is replaced if it is empty or a run directory
// (with summary.json and config.resolved.textproto). Any other `path`, the current folder and the
// folders above it are refused with InputError (usage).
class RunDirectory {
 public:
  using Appearance = OutputFile::Appearance;

  // Notes on `control` (borrowed until Commit(), may be null) that an earlier run is replaced, or
  // that leftovers of killed runs are removed. Throws std::system_error if the folder cannot be
  // made.
  explicit RunDirectory(const std::filesystem::path& path, RunControl* control = nullptr,
                        Appearance appearance = Appearance::kWhenComplete);

  // An existing directory, in which files are added or replaced, each when it is complete.
  static RunDirectory Existing(const std::filesystem::path& path) { return {path, Kept{}}; }
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  // Where to write a file of the run before Commit().
  [[nodiscard]] std::filesystem::path File(const std::string& name) const {
    return (partial_ ? partial_->path() : path_) / name;
  }
  // When the run's files appear at path().
  [[nodiscard]] Appearance appearance() const { return appearance_; }

  void WriteText(const std::string& name, const std::string& text) const;
  // The run stays at its path, and what was there before is gone. Further calls have no effect.
  void Commit();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  struct Kept {};
  RunDirectory(std::filesystem::path path, Kept /*kept*/)
      : path_(std::move(path)), committed_(true) {}

  std::filesystem::path path_;
  std::optional<PartialDirectory> partial_;
  Appearance appearance_ = Appearance::kWhenComplete;
  std::filesystem::path old_;        // what was at path_; empty: nothing
  RunControl* replacing_ = nullptr;  // to be told that an earlier run is replaced
  bool committed_ = false;
};

// summary.json of a run directory; entries that are null are left out.
// Throws InputError: there is none (usage); it is no JSON object, or an entry is of a kind that its
// metric cannot have (data).
Summary ReadSummary(const std::filesystem::path& run);

// The name of a run: the last component of its path, which may end with a slash.
std::string RunName(const std::filesystem::path& path);

}  // namespace twin::run
