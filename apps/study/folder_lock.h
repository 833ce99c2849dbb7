// A lock on a folder, so that one process at a time works in it.
#pragma once

#include <filesystem>

namespace twin::run {

class FolderLock {
 public:
  // Locks with flock(), which ends with the process. On file systems without it (Lustre mounted
  // without the option flock), the file `.lock` in the folder names the host and the process: it is
  // left by a killed process, and taken over on its host alone. Throws InputError (usage) if
  // another process holds the lock; std::system_error.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;              // of the folder
  std::filesystem::path file_;  // of the lock; empty with flock()
};

}  // namespace twin::run
