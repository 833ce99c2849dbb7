#include "run/provenance.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "config/servers/servers.h"
#include "core/hash.h"
#include "run/version.h"

namespace twin::run {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::uintmax_t kWholeBytesMax = std::uintmax_t{64} << 20;
constexpr std::uintmax_t kEndBytes = std::uintmax_t{1} << 20;

// Continues `hash` with up to `bytes` bytes of the stream.
std::uint64_t HashBytes(std::istream& in, std::uintmax_t bytes, std::uint64_t hash) {
  std::string chunk(1 << 16, '\0');
  while (bytes > 0) {
    in.read(chunk.data(), static_cast<std::streamsize>(std::min<std::uintmax_t>(bytes, 1 << 16)));
    const auto got = static_cast<std::size_t>(in.gcount());
    if (got == 0) break;
    hash = MixWords(hash, HashText({chunk.data(), got}));
    bytes -= got;
  }
  return hash;
}

Json FileJson(const std::string& field, const fs::path& path) {
  Json file;
  if (!field.empty()) file["field"] = field;
  file["file"] = path.filename().string();
  std::error_code ignored;
  const std::uintmax_t bytes = fs::file_size(path, ignored);
  if (!ignored) file["bytes"] = bytes;
  const FileHash hash = HashOfFile(path);
  file[hash.whole ? "hash" : "hash_of_size_and_first_and_last_mib"] = hash.hex;
  return file;
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

Json MachineJson() {
  utsname system{};
  uname(&system);
  return {{"system", fmt::format("{} {}", system.sysname, system.release)},
          {"architecture", system.machine},
          {"cpu", CpuModel()},
          {"cores", sysconf(_SC_NPROCESSORS_ONLN)}};
}

// Version of the driver, such as "580.82.07"; empty if the kernel module does not report it.
std::string NvidiaDriverVersion() {
  std::ifstream in("/proc/driver/nvidia/version");
  std::string line;
  std::getline(in, line);
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const bool version = word.find('.') != std::string::npos &&
                         word.find_first_not_of("0123456789.") == std::string::npos;
    if (version) return word;
  }
  return "";
}

Json GpuJson(const MachineGpus& gpus) {
  Json gpu;
  gpu["devices"] = Json::array();
  for (const MachineGpu& device : gpus.devices) {
    gpu["devices"].push_back({{"name", device.name},
                              {"compute_capability", device.compute_capability},
                              {"memory_bytes", device.memory_bytes}});
  }
  const std::string driver = NvidiaDriverVersion();
  if (!driver.empty()) gpu["driver"] = driver;
  gpu["driver_cuda"] = gpus.driver_cuda;
  gpu["runtime_cuda"] = gpus.runtime_cuda;
  return gpu;
}

Json WeightsJson(const fs::path& directory) {
  if (directory.empty()) return "dummy";
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".safetensors") || name.ends_with(".json")) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  Json weights = Json::array();
  for (const fs::path& file : files) weights.push_back(FileJson("", file));
  return weights;
}

Json LoadJson(const MachineLoad& load) {
  return {
      {"steal_share", load.steal_share},           {"other_cpus", load.other_cpus},
      {"other_cpus_max", load.other_cpus_max},     {"load_average_begin", load.load_average_begin},
      {"load_average_end", load.load_average_end}, {"disturbed", load.disturbed()}};
}

}  // namespace

FileHash HashOfFile(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return {};  // opening a FIFO waits for its writer
  std::ifstream in(path, std::ios::binary);
  const std::uintmax_t bytes = fs::file_size(path, error);
  if (!in || error) return {};
  if (bytes <= kWholeBytesMax) return {HexText(HashBytes(in, bytes, 0)), true};
  std::uint64_t hash = HashBytes(in, kEndBytes, MixWords(0, bytes));
  in.seekg(-static_cast<std::streamoff>(kEndBytes), std::ios::end);
  hash = HashBytes(in, kEndBytes, hash);
  return {HexText(hash), false};
}

std::string ProvenanceJson(const ExperimentConfig& config, const std::string& resolved,
                           const std::vector<std::string>& command_line,
                           const std::optional<RealProvenance>& real) {
  Json json;
  json["program"] = "twinserve";
  json["version"] = kVersion;
  json["commit"] = kCommit;
  json["dirty"] = kDirty;
  json["build_type"] = kBuildType;
  json["compiler"] = kCompiler;
  json["finished_at"] = UtcNow();
  json["machine"] = MachineJson();
  if (real && real->gpus) json["gpu"] = GpuJson(*real->gpus);
  if (real && real->load) json["machine_load"] = LoadJson(*real->load);
  json["command_line"] = command_line;
  json["seed"] = config.seed;
  json["config_hash"] = HexText(HashText(resolved));
  json["inputs"] = Json::array();
  for (const InputFile& input : config.input_files) {
    const fs::path path = input.path;
    // A model may be named by its folder.
    json["inputs"].push_back(
        FileJson(input.field, fs::is_directory(path) ? path / "config.json" : path));
  }
  for (const ServerPreset& preset : ServerPresets()) {
    if (config.system.server != preset.name) continue;
    json["server"] = {{"name", preset.name}, {"filled_in_from", preset.source}};
    if (config.system.server_asked) json["server"]["stands_in_for"] = *config.system.server_asked;
  }
  if (real) json["weights"] = WeightsJson(real->weights);
  if (real && real->draft_weights) json["draft_weights"] = WeightsJson(*real->draft_weights);
  return json.dump(2) + "\n";
}

}  // namespace twin::run
