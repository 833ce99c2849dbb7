#include "lab/run_directory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <system_error>

#include "core/input_error.h"

namespace twin::lab {
namespace {

namespace fs = std::filesystem;

// Linux counts the memory of the process that this one was started by into ru_maxrss.
double PeakRssMib(const rusage& use) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    long long kib = 0;
    if (std::sscanf(line.c_str(), "VmHWM: %lld kB", &kib) == 1) {
      return static_cast<double>(kib) / 1024.0;
    }
  }
  return static_cast<double>(use.ru_maxrss) / 1024.0;
}

[[noreturn]] void Refuse(const fs::path& path, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, path.string(), what);
}

// What is there may go: nothing, an empty folder, or an earlier run. Never the folder that the
// program, and whoever called it, is in.
void RequireReplaceable(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) return;
  const bool is_run =
      fs::exists(path / "summary.json") && fs::exists(path / "config.resolved.textproto");
  if (!is_run && !(fs::is_directory(path) && fs::is_empty(path))) {
    Refuse(path, "is there and is no run directory; allowed: a new name, or an earlier run's");
  }
  const fs::path from_it = fs::current_path().lexically_relative(fs::canonical(path));
  if (!from_it.empty() && *from_it.begin() != "..") {
    Refuse(path, "is the current folder or one above it; allowed: a new name, or an earlier run's");
  }
}

// A new folder PATH.partial.NUMBER, with those above it: of this process's number, or the next one
// that is free.
fs::path MakeBeside(const fs::path& path) {
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  for (int number = getpid(); !error; ++number) {
    fs::path made = path;
    made += ".partial." + std::to_string(number);
    if (fs::create_directory(made, error)) return made;
    // A file of that name counts as taken too.
    if (error == std::errc::file_exists) error.clear();
  }
  Refuse(path, "cannot be made: " + error.message());
}

}  // namespace

RunDirectory::RunDirectory(fs::path path) : path_(path.lexically_normal()) {
  if (path_.filename().empty()) path_ = path_.parent_path();
  RequireReplaceable(path_);
  partial_ = MakeBeside(path_);
}

RunDirectory::~RunDirectory() {
  if (committed_) return;
  std::error_code ignored;
  fs::remove_all(partial_, ignored);
}

void RunDirectory::WriteText(const std::string& name, const std::string& text) const {
  std::ofstream out(File(name), std::ios::binary);
  out << text;
  out.flush();
  if (!out) throw std::system_error(errno, std::generic_category(), File(name).string());
}

void RunDirectory::Commit() {
  fs::remove_all(path_);
  fs::rename(partial_, path_);
  committed_ = true;
}

ProcessUse UseOfThisProcess() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return {seconds(use.ru_utime) + seconds(use.ru_stime), PeakRssMib(use)};
}

}  // namespace twin::lab
