#include "apps/run_directory.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <fstream>
#include <string>
#include <system_error>

#include <nlohmann/json.hpp>

#include "apps/version.h"
#include "core/hash.h"
#include "core/input_error.h"

namespace twin::apps {
namespace {

namespace fs = std::filesystem;

constexpr char kMark[] = "provenance.json";

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

}  // namespace

RunDirectory::RunDirectory(fs::path path) : path_(std::move(path)) {
  if (path_.filename().empty()) path_ = path_.parent_path();
  partial_ = path_;
  partial_ += ".partial";
  if (fs::exists(path_) && !fs::exists(path_ / kMark) &&
      !(fs::is_directory(path_) && fs::is_empty(path_))) {
    throw InputError(InputError::Kind::kUsage, path_.string(),
                     "is there and is no run directory; allowed: a new name, or an earlier run's");
  }
  std::error_code error;
  fs::remove_all(partial_, error);
  fs::create_directories(partial_, error);
  if (error) {
    throw InputError(InputError::Kind::kUsage, path_.string(),
                     "cannot be made: " + error.message());
  }
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

}  // namespace twin::apps
