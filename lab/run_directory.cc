#include "lab/run_directory.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <fstream>
#include <string>
#include <system_error>

#include <nlohmann/json.hpp>

#include "core/hash.h"
#include "core/input_error.h"
#include "lab/version.h"

namespace twin::lab {
namespace {

namespace fs = std::filesystem;

std::string Hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

// Hash of a file's bytes; empty if it cannot be read.
std::string FileHash(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return "";
  std::uint64_t hash = 0;
  std::string chunk(1 << 16, '\0');
  while (in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())), in.gcount() > 0) {
    hash = MixWords(hash, HashText({chunk.data(), static_cast<std::size_t>(in.gcount())}));
  }
  return Hex(hash);
}

std::string CpuModel() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string UtcNow() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

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

std::string ProvenanceJson(const ExperimentConfig& config, const std::string& resolved,
                           const std::vector<std::string>& command_line) {
  utsname system{};
  uname(&system);
  nlohmann::ordered_json json;
  json["program"] = "twinserve";
  json["version"] = kVersion;
  json["commit"] = kCommit;
  json["dirty"] = kDirty;
  json["build_type"] = kBuildType;
  json["compiler"] = kCompiler;
  json["finished_at"] = UtcNow();
  json["machine"] = {{"system", std::string(system.sysname) + " " + system.release},
                     {"architecture", system.machine},
                     {"cpu", CpuModel()},
                     {"cores", sysconf(_SC_NPROCESSORS_ONLN)}};
  json["command_line"] = command_line;
  json["seed"] = config.seed;
  json["config_hash"] = Hex(HashText(resolved));
  json["inputs"] = nlohmann::ordered_json::array();
  std::vector<std::string> inputs;
  if (config.workload.trace) inputs.push_back(config.workload.trace->path);
  if (config.workload.servegen) {
    inputs.push_back(config.workload.servegen->arrivals_path);
    inputs.push_back(config.workload.servegen->lengths_path);
  }
  for (const std::string& input : inputs) {
    json["inputs"].push_back(
        {{"file", fs::path(input).filename().string()}, {"hash", FileHash(input)}});
  }
  return json.dump(2) + "\n";
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
