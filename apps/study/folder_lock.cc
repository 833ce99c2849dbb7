#include "apps/study/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>
#include <system_error>

#include "core/input_error.h"
#include "core/number_text.h"
#include "core/printable.h"

namespace twin::run {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void RefuseHeld(const fs::path& folder, const std::string& by) {
  throw InputError(InputError::Kind::kUsage, folder.string(),
                   fmt::format("another process{} is running this study; wait for it, or choose "
                               "another --out",
                               by));
}

[[noreturn]] void Fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

std::string HostName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

// Whether a file of a lock was left by a process of this host that has ended.
bool IsLeft(const std::string& content) {
  const std::size_t space = content.find(' ');
  if (space == std::string::npos || content.substr(0, space) != HostName()) return false;
  const auto process = NumberFrom<pid_t>(content.substr(space + 1));
  return process && *process > 0 && kill(*process, 0) != 0 && errno == ESRCH;
}

std::string ContentOf(const fs::path& file) {
  std::string line;
  std::ifstream in(file);
  std::getline(in, line);
  return line;
}

// Makes the file, which must not exist; false if it does.
bool MakeFile(const fs::path& file) {
  const int made = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (made < 0 && errno == EEXIST) return false;
  if (made < 0) Fail(errno, fmt::format("{}: cannot be made", file.string()));
  const std::string content = fmt::format("{} {}\n", HostName(), getpid());
  const bool written =
      write(made, content.data(), content.size()) == static_cast<ssize_t>(content.size());
  const int error = errno;
  close(made);
  if (!written) {
    unlink(file.c_str());
    Fail(error, fmt::format("{}: cannot be written", file.string()));
  }
  return true;
}

// Removes a file that was left. Another process may have taken it over since it was read: then it
// comes back.
bool RemoveLeft(const fs::path& file, const std::string& content) {
  const fs::path moved = fmt::format("{}.{}", file.string(), getpid());
  if (rename(file.c_str(), moved.c_str()) != 0) return false;
  if (ContentOf(moved) == content) return unlink(moved.c_str()) == 0;
  (void)rename(moved.c_str(), file.c_str());
  return false;
}

void TakeFile(const fs::path& folder, const fs::path& file) {
  if (MakeFile(file)) return;
  const std::string content = ContentOf(file);
  if (IsLeft(content) && RemoveLeft(file, content) && MakeFile(file)) return;
  RefuseHeld(folder, fmt::format(" ({}, as {} says; remove the file if that process has ended)",
                                 Printable(content, kMessageBytesMax), file.filename().string()));
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder)
    : descriptor_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0) Fail(errno, folder.string());
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  const int error = errno;
  close(descriptor_);
  descriptor_ = -1;
  if (error == EWOULDBLOCK) RefuseHeld(folder, "");
  const bool lacks_it = error == ENOSYS || error == EOPNOTSUPP || error == ENOLCK;
  if (!lacks_it) Fail(error, fmt::format("{}: cannot be locked", folder.string()));
  file_ = folder / ".lock";
  TakeFile(folder, file_);
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!file_.empty()) unlink(file_.c_str());
}

}  // namespace twin::run
