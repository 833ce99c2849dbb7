#include "core/files/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/files/output_target.h"
#include "core/input_error.h"

namespace twin {
namespace {

constexpr std::size_t kBufferBytes = 1 << 16;

[[noreturn]] void Refuse(const std::filesystem::path& path, const std::string& reason) {
  throw InputError(InputError::Kind::kData, path.string(), "cannot be written: " + reason);
}

std::string ReasonOf(int error) { return std::generic_category().message(error); }

constexpr int kFlags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
constexpr int kMode = 0666;  // before the umask

// Removes TARGET.partial.NUMBER if no process NUMBER exists and nobody holds the lock that
// OpenPartial() takes: other machines and containers have processes of their own.
void RemoveLeftovers(const std::filesystem::path& target) {
  namespace fs = std::filesystem;
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  const std::string stem = target.filename().string() + ".partial.";
  std::error_code error;
  std::vector<fs::path> left;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::optional<int> number = NumberAfter(stem, entry->path().filename().string());
    if (number && !ProcessExists(*number)) left.push_back(entry->path());
  }
  for (const fs::path& leftover : left) {
    const int file = open(leftover.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) continue;
    struct stat status {};
    const bool is_file = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
    if (is_file && flock(file, LOCK_EX | LOCK_NB) == 0) fs::remove(leftover, error);
    close(file);
  }
}

// Makes TARGET.partial.NUMBER and returns its descriptor. NUMBER is the process or the next free
// number, so that nobody else's file or link is written to. Returns -1 with errno if it fails.
int OpenPartial(const std::filesystem::path& target, std::filesystem::path& partial) {
  for (int number = getpid();; ++number) {
    partial = fmt::format("{}.partial.{}", target.string(), number);
    const int file = open(partial.c_str(), kFlags | O_EXCL, kMode);
    if (file >= 0) static_cast<void>(flock(file, LOCK_EX | LOCK_NB));  // not on every file system
    if (file >= 0 || errno != EEXIST) return file;
  }
}

}  // namespace

OutputFile::OutputFile(std::filesystem::path path, Appearance appearance) : path_(std::move(path)) {
  OutputTarget target;
  try {
    target = FindOutputTarget(path_);
  } catch (const std::system_error& error) {
    Refuse(path_, error.code().message());
  }
  switch (target.kind) {
    case OutputTarget::Kind::kDirectory:
      Refuse(path_, ReasonOf(EISDIR));
    case OutputTarget::Kind::kDescriptor:
      descriptor_ = fcntl(target.descriptor, F_DUPFD_CLOEXEC, 0);
      break;
    case OutputTarget::Kind::kStream:
      descriptor_ = open(target.path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
      break;
    case OutputTarget::Kind::kFile: {
      target_ = target.path;
      if (appearance == Appearance::kAtOnce) {
        descriptor_ = open(target_.c_str(), kFlags | O_TRUNC, kMode);
        // The lock tells other processes that the file still grows, or that its writer was killed.
        if (descriptor_ >= 0) static_cast<void>(flock(descriptor_, LOCK_EX | LOCK_NB));
        break;
      }
      RemoveLeftovers(target_);
      descriptor_ = OpenPartial(target_, partial_);
      if (descriptor_ < 0) partial_.clear();
      break;
    }
  }
  if (descriptor_ < 0) Refuse(path_, ReasonOf(errno));
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
  std::error_code ignored;
  if (!partial_.empty()) std::filesystem::remove(partial_, ignored);
}

void OutputFile::Write(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kBufferBytes) Flush();
}

void OutputFile::Flush() {
  std::string_view left = buffer_;
  while (!left.empty()) {
    const ssize_t written = write(descriptor_, left.data(), left.size());
    if (written < 0 && errno != EINTR) Fail(errno);
    if (written > 0) left.remove_prefix(static_cast<std::size_t>(written));
  }
  buffer_.clear();
}

void OutputFile::Fail(int error) const {
  throw InputError(InputError::Kind::kData, path_.string(),
                   "cannot be written" + (error == 0 ? "" : ": " + ReasonOf(error)));
}

void OutputFile::Commit() {
  CHECK(descriptor_ >= 0);
  Flush();
  if (close(std::exchange(descriptor_, -1)) != 0) Fail(errno);
  if (partial_.empty()) return;
  std::error_code error;
  std::filesystem::rename(partial_, target_, error);
  if (error) Fail(error.value());
  partial_.clear();
}

void MakeOutputFolder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) Refuse(path, error.message());
}

void RequireOutputFolder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path nearest = std::filesystem::absolute(path);
  while (nearest.has_relative_path() && !std::filesystem::exists(nearest, error)) {
    nearest = nearest.parent_path();
  }
  // Permissions alone do not decide: /proc grants them, and no folder can be made there.
  const std::filesystem::path trial = nearest / fmt::format("twinserve.partial.{}", getpid());
  const bool made = std::filesystem::create_directory(trial, error);
  if (error) Refuse(path, error.message());
  if (made) std::filesystem::remove(trial, error);
}

void WriteFile(const std::filesystem::path& path, std::string_view text) {
  OutputFile file(path);
  file.Write(text);
  file.Commit();
}

}  // namespace twin
