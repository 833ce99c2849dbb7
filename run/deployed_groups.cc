#include "run/deployed_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#include "config/replica_groups.h"
#include "core/input_error.h"
#include "run/available_memory.h"
#include "run/files/record_file.h"

namespace twin::run {
namespace {

std::string GroupField(std::size_t index) {
  return fmt::format("system.replica_groups[{}]", index);
}

std::vector<Deployment> ResolveEach(const ExperimentConfig& config, CostCache& cache) {
  std::vector<Deployment> groups;
  for (std::size_t i = 0; i < config.system.groups.size(); ++i) {
    try {
      groups.push_back(Resolve(ConfigOfGroup(config, i), cache));
    } catch (const InputError& error) {
      const bool usage = error.exit_code() == static_cast<int>(InputError::Kind::kUsage);
      throw InputError(usage ? InputError::Kind::kUsage : InputError::Kind::kData, GroupField(i),
                       error.what());
    }
  }
  return groups;
}

std::string YesOrNo(bool value) { return value ? "true" : "false"; }

// Traits of a group that clients and other replicas see, with their values as text.
std::vector<std::pair<const char*, std::string>> SharedTraits(const Deployment& group) {
  const PolicyTraits& traits = group.traits;
  return {
      {"the block size", fmt::format("{}", group.engine.kv.block_size)},
      {"prefix caching", YesOrNo(traits.caches_prefixes)},
      {"tokens per key of a prefix", fmt::format("{}", group.engine.kv.tokens_per_key())},
      {"tokens per request", fmt::format("{}", group.context_tokens_max)},
      {"delivery of tokens at the end of a batch", YesOrNo(traits.delivery == Delivery::kBatchEnd)},
      {"drafts per step", fmt::format("{}", traits.drafts_max)},
      {"planning before drafts are known", YesOrNo(traits.assumes_drafts)}};
}

void RequireAlike(const std::vector<Deployment>& groups) {
  const auto first = SharedTraits(groups.front());
  for (std::size_t i = 1; i < groups.size(); ++i) {
    const auto other = SharedTraits(groups[i]);
    for (std::size_t trait = 0; trait < first.size(); ++trait) {
      if (first[trait].second == other[trait].second) continue;
      throw InputError(InputError::Kind::kUsage, GroupField(i),
                       fmt::format("{} is {}; allowed: {}, as in replica_groups[0]",
                                   other[trait].first, other[trait].second, first[trait].second));
    }
  }
}

void RequireCountableGroups(const std::vector<Deployment>& groups) {
  constexpr std::int64_t kBlocksMax = std::numeric_limits<std::int32_t>::max();
  std::int64_t blocks = 0;
  for (const Deployment& group : groups) {
    blocks += std::int64_t{group.engine.kv.blocks} * group.config.system.replicas;
  }
  if (blocks <= kBlocksMax) return;
  throw InputError(InputError::Kind::kUsage, "system.replica_groups",
                   fmt::format("have {} KV blocks; allowed: {} blocks in all", blocks, kBlocksMax));
}

// Enters what the groups resolved: a resolved config resolves to itself.
void EnterResolved(const std::vector<Deployment>& groups, ExperimentConfig& config) {
  for (std::size_t i = 0; i < groups.size(); ++i) {
    config.system.groups[i].policy = groups[i].config.policy;
    config.system.groups[i].cost = groups[i].config.cost;
    config.system.groups[i].ffn = groups[i].config.system.ffn;
  }
  config.policy = groups.front().config.policy;
  config.cost = groups.front().config.cost;
  config.system.ffn = groups.front().config.system.ffn;
  config.system.boundary = groups.front().config.system.boundary;
}

}  // namespace

Deployment ResolveGroups(const ExperimentConfig& config, CostCache& cache) {
  std::vector<Deployment> groups = ResolveEach(config, cache);
  RequireAlike(groups);
  RequireCountableGroups(groups);
  Deployment whole = groups.front();
  whole.config = config;
  EnterResolved(groups, whole.config);
  whole.world.replicas = config.system.replicas;
  for (const Deployment& group : groups) {
    whole.world.groups.push_back({.count = group.config.system.replicas,
                                  .cost = group.cost.get(),
                                  .forgets_stale_tokens = group.traits.forgets_stale_tokens,
                                  .overlaps_own_steps = group.traits.overlaps_own_steps});
  }
  whole.groups = std::move(groups);
  return whole;
}

namespace {

// Memory that this process can allocate; without a limit where the system reports none.
std::int64_t ReportedMemory() {
  try {
    return AvailableMemory();
  } catch (const std::system_error&) {
    return std::numeric_limits<std::int64_t>::max();
  }
}

// Refuses a damaged header before the engines that it asks for take the memory of the machine.
void RequireRoomForBlocks(const EngineGroups& engines) {
  constexpr std::int64_t kBlocksMax = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t kAlwaysFit = 10'000'000;
  constexpr std::int64_t kBytesPerBlock = 16;  // of bookkeeping, at least
  std::int64_t blocks = 0;
  std::int64_t host_blocks = 0;
  for (const EngineGroup& group : engines) {
    blocks += std::int64_t{group.engine.kv.blocks} * group.replicas;
    host_blocks += std::int64_t{group.engine.kv.host_blocks} * group.replicas;
    if (blocks > kBlocksMax || host_blocks > kBlocksMax) {
      throw InputError(InputError::Kind::kData, "header",
                       fmt::format("the KV caches of all replicas have {} blocks or more; allowed: "
                                   "{} blocks in all",
                                   std::max(blocks, host_blocks), kBlocksMax));
    }
  }
  if (blocks + host_blocks <= kAlwaysFit) return;
  const std::int64_t bytes = (blocks + host_blocks) * kBytesPerBlock;
  const std::int64_t available = ReportedMemory();
  if (bytes <= available) return;
  throw InputError(InputError::Kind::kData, "header",
                   fmt::format("the account of {} KV blocks of all replicas takes {} or more; this "
                               "machine has {} left",
                               blocks + host_blocks, Gigabytes(static_cast<double>(bytes)),
                               Gigabytes(static_cast<double>(available))));
}

}  // namespace

EngineGroups EnginesOf(const ExperimentConfig& config, const RecordHeader& header) {
  EngineGroups engines = header.groups;
  if (engines.empty()) {
    engines = {{config.system.replicas, header.engine}};
  } else if (!std::ranges::equal(config.system.groups, engines, {}, &ReplicaGroup::count,
                                 &EngineGroup::replicas)) {
    throw InputError(InputError::Kind::kData, "groups",
                     "are not those of the recorded config's system.replica_groups; allowed: a "
                     "record as it was written");
  }
  RequireRoomForBlocks(engines);
  return engines;
}

std::int64_t DevicesOf(const Deployment& deployment) {
  if (deployment.groups.empty()) {
    const SystemConfig& system = deployment.config.system;
    return std::int64_t{system.replicas} * system.devices();
  }
  std::int64_t devices = 0;
  for (const Deployment& group : deployment.groups) devices += DevicesOf(group);
  return devices;
}

std::int32_t KvBlocksOf(const EngineGroups& engines) {
  std::int32_t blocks = 0;
  for (const EngineGroup& group : engines) blocks += group.engine.kv.blocks * group.replicas;
  return blocks;
}

}  // namespace twin::run
