// A folder that appears under its name only when it is complete.
#pragma once

#include <filesystem>

#include "run/run_control.h"

namespace twin::run {

// Collects files in PATH.partial.NUMBER, NUMBER being the process or the next free number, and
// gives that folder the name PATH on Commit(). A folder at PATH is replaced in one step where the
// file system can exchange two names, and otherwise moved to PATH.old.NUMBER first: after a crash
// at any moment, the old or the new folder is complete on disk.
//
// Abandoned folders PATH.partial.NUMBER are removed first. A folder counts as abandoned by a killed
// process if no process NUMBER exists and nobody holds the lock on the marker file that every
// partial folder has, so that folders of other programs, containers and machines stay.
class PartialDirectory {
 public:
  // Follows symbolic links: the folder they lead to is replaced. Notes the removal of leftovers on
  // `control`, if given. Throws InputError (usage) if no folder can be made there.
  PartialDirectory(const std::filesystem::path& path, RunControl* control);
  // Without Commit(), removes the folder.
  ~PartialDirectory();
  PartialDirectory(const PartialDirectory&) = delete;
  PartialDirectory& operator=(const PartialDirectory&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return partial_; }

  // Throws std::system_error. REQUIRES: called once.
  void Commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path partial_;
  int lock_ = -1;
  bool committed_ = false;
};

}  // namespace twin::run
