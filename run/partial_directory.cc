#include "run/partial_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/files/output_target.h"
#include "core/input_error.h"

namespace twin::run {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPartialMarker = ".twinserve-partial";

fs::path Beside(const fs::path& path, std::string_view word, int number) {
  return fmt::format("{}.{}.{}", path.string(), word, number);
}

// An open marker whose lock is held; -1 if there is none, or another process has it.
int LockPartialMarker(const fs::path& folder, int flags) {
  constexpr int kMode = 0666;  // before the umask
  const int file = open((folder / kPartialMarker).c_str(), O_RDWR | O_CLOEXEC | flags, kMode);
  if (file < 0) return -1;
  if (flock(file, LOCK_EX | LOCK_NB) == 0) return file;
  close(file);
  return -1;
}

void RemoveLeftovers(const fs::path& target, RunControl* control) {
  std::error_code error;
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  std::vector<fs::path> left;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::optional<int> number =
        NumberAfter(target.filename().string() + ".partial.", entry->path().filename().string());
    if (number && !ProcessExists(*number)) left.push_back(entry->path());
  }
  for (const fs::path& leftover : left) {
    const int lock = LockPartialMarker(leftover, 0);
    if (lock < 0) continue;
    fs::remove_all(leftover, error);
    close(lock);
    if (!error && control != nullptr) {
      control->OnNote(fmt::format("removed {}, left behind by a run that was killed",
                                  leftover.lexically_normal().string()));
    }
  }
}

fs::path MakeFolder(const fs::path& target) {
  std::error_code error;
  if (target.has_parent_path()) fs::create_directories(target.parent_path(), error);
  for (int number = getpid(); !error; ++number) {
    fs::path made = Beside(target, "partial", number);
    if (fs::create_directory(made, error)) return made;
    // A file of that name counts as taken too.
    if (error == std::errc::file_exists) error.clear();
  }
  throw InputError(InputError::Kind::kUsage, target.string(),
                   "cannot be created: " + error.message());
}

// Replaces the folder on file systems that cannot exchange names, or that cannot even rename the
// old folder because it lies in a lower layer of an overlay.
void MoveAsideAndRename(const fs::path& made, const fs::path& target) {
  const fs::path aside = Beside(target, "old", getpid());
  std::error_code error;
  fs::rename(target, aside, error);
  if (error) {
    fs::remove_all(target);
    fs::rename(made, target);
    return;
  }
  fs::rename(made, target);
  fs::remove_all(aside);
}

}  // namespace

PartialDirectory::PartialDirectory(const fs::path& path, RunControl* control)
    : target_(FindOutputTarget(path).path.lexically_normal()) {
  if (target_.filename().empty()) target_ = target_.parent_path();
  RemoveLeftovers(target_, control);
  partial_ = MakeFolder(target_);
  lock_ = LockPartialMarker(partial_, O_CREAT);
}

PartialDirectory::~PartialDirectory() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(partial_, ignored);
  if (lock_ >= 0) close(lock_);
}

void PartialDirectory::Commit() {
  fs::remove(partial_ / kPartialMarker);
  if (!fs::exists(target_)) {
    fs::rename(partial_, target_);
  } else if (renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) ==
             0) {
    std::error_code ignored;  // the new folder is in its place
    fs::remove_all(partial_, ignored);
  } else {
    MoveAsideAndRename(partial_, target_);
  }
  committed_ = true;
}

}  // namespace twin::run
