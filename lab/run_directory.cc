#include "lab/run_directory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <system_error>

#include "core/input_error.h"
#include "files/output_file.h"

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

// `path` without a trailing slash, if a run may replace what is there: nothing, an empty folder, or
// an earlier run, but never the current folder of the process or one above it.
fs::path Replaceable(fs::path path) {
  if (path.filename().empty()) path = path.parent_path();
  std::error_code error;
  if (!fs::exists(fs::status(path, error))) return path;
  const bool is_run =
      fs::exists(path / "summary.json") && fs::exists(path / "config.resolved.textproto");
  if (!is_run && !(fs::is_directory(path) && fs::is_empty(path))) {
    Refuse(path, "already exists and is not a run directory; choose another --out");
  }
  const fs::path from_it = fs::current_path().lexically_relative(fs::canonical(path));
  if (!from_it.empty() && *from_it.begin() != "..") {
    Refuse(path, "is the current folder or one above it; choose another --out");
  }
  return path;
}

}  // namespace

RunDirectory::RunDirectory(fs::path path, RunControl* control)
    : path_(Replaceable(path.lexically_normal())), partial_(path_, control) {}

void RunDirectory::WriteText(const std::string& name, const std::string& text) const {
  WriteFile(File(name), text);
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
