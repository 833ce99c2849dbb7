#include "run/available_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>

#include "core/input_error.h"

namespace twin::run {
namespace {

std::optional<std::int64_t> NumberIn(const std::string& file) {
  std::ifstream in(file);
  std::int64_t number = 0;
  if (!(in >> number)) return std::nullopt;  // not there, or "max"
  return number;
}

// Bytes below the memory limit of the control group that the process sees as its root, for version
// 1 or 2 of control groups. Pages that only cache files count as free. nullopt without a limit.
std::optional<std::int64_t> LeftInControlGroup() {
  struct Group {
    const char* limit;
    const char* used;
    const char* statistics;
    const char* cache;
  };
  constexpr Group kGroups[] = {
      {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat",
       "inactive_file"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes",
       "/sys/fs/cgroup/memory/memory.stat", "total_inactive_file"}};
  for (const Group& group : kGroups) {
    const auto limit = NumberIn(group.limit);
    const auto used = NumberIn(group.used);
    if (!limit || !used) continue;
    std::int64_t cache = 0;
    std::ifstream statistics(group.statistics);
    std::string name;
    for (std::int64_t value = 0; statistics >> name >> value;) {
      if (name == group.cache) cache = value;
    }
    return std::max<std::int64_t>(*limit - (*used - cache), 0);
  }
  return std::nullopt;
}

std::int64_t AvailableOnMachine() {
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    long long kib = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %lld kB", &kib) == 1) return kib * 1024;
  }
  throw std::system_error(ENOENT, std::generic_category(), "/proc/meminfo: MemAvailable");
}

}  // namespace

std::string Gigabytes(double bytes) {
  char text[48];
  std::snprintf(text, sizeof text, "%.3f GB", bytes * 1e-9);
  return text;
}

std::int64_t HeldBytesPerToken(const ModelSpec& model, const Parallelism& parallelism,
                               std::int32_t stage) {
  std::int64_t bytes = 0;
  for (const LayerGroup& kind : StageLayerKinds(model, parallelism, stage)) {
    bytes += kind.layers * KvBytesPerTokenAndLayer(model, kind.layer, parallelism);
  }
  return bytes;
}

void RequireRoom(const ModelSpec& model, std::int64_t blocks, std::int32_t block_size,
                 std::int64_t available, double share) {
  // Products of large options do not fit into integers.
  const double weights = share * static_cast<double>(WeightBytesPerRank(model, {}, 0));
  const double cache = share * static_cast<double>(blocks) * static_cast<double>(block_size) *
                       static_cast<double>(HeldBytesPerToken(model, {}, 0));
  if (weights + cache <= static_cast<double>(available)) return;
  throw InputError(InputError::Kind::kUsage, "memory",
                   model.name + " needs " + Gigabytes(weights + cache) + " (weights " +
                       Gigabytes(weights) + ", " + std::to_string(blocks) + " blocks " +
                       Gigabytes(cache) + "); allowed: the " +
                       Gigabytes(static_cast<double>(available)) + " available");
}

std::int64_t AvailableMemory() {
  const std::int64_t machine = AvailableOnMachine();
  const auto group = LeftInControlGroup();
  return group ? std::min(machine, *group) : machine;
}

}  // namespace twin::run
