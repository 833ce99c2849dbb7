#include "run/make_engines.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/time.h"
#include "sched/route/router.h"

namespace twin::run {
namespace {

MixedPools MixedPoolsOf(const SystemConfig& system, const EngineGroups& engines) {
  const DisaggregationConfig& split = system.disaggregation->pools;
  std::vector<std::int32_t> blocks;
  for (const EngineGroup& group : engines) {
    blocks.insert(blocks.end(), static_cast<std::size_t>(group.replicas), group.engine.kv.blocks);
  }
  return {*split.mixed_pool, split.prefill_replicas, blocks, engines.front().engine.kv.block_size,
          DurationFromSeconds(system.router.telemetry_delay_ms * 1e-3)};
}

}  // namespace

std::unique_ptr<Policy> MakePolicyOf(const ExperimentConfig& config, std::size_t group,
                                     const KvPoolConfig& kv) {
  if (config.own_policy != nullptr) return config.own_policy->make(kv);
  CHECK(!config.policy_file);  // LoadOwnPolicy() was called
  const std::vector<ReplicaGroup>& groups = config.system.groups;
  return MakePolicy(groups.empty() ? config.policy : groups.at(group).policy, kv);
}

std::unique_ptr<Engine> MakeEngine(const Deployment& deployment) {
  return std::make_unique<Engine>(deployment.engine,
                                  MakePolicyOf(deployment.config, 0, deployment.engine.kv));
}

std::unique_ptr<Cluster> MakeCluster(const Deployment& deployment) {
  return MakeCluster(deployment.config, deployment.engines());
}

std::unique_ptr<Cluster> MakeCluster(const ExperimentConfig& config, const EngineGroups& engines) {
  const SystemConfig& system = config.system;
  std::vector<std::unique_ptr<Engine>> all;
  for (std::size_t group = 0; group < engines.size(); ++group) {
    for (std::int32_t i = 0; i < engines[group].replicas; ++i) {
      EngineConfig engine = engines[group].engine;
      engine.replica = static_cast<std::int32_t>(all.size());
      all.push_back(std::make_unique<Engine>(engine, MakePolicyOf(config, group, engine.kv)));
    }
  }
  CHECK(all.size() == static_cast<std::size_t>(system.replicas));
  const KvPoolConfig& kv = engines.front().engine.kv;
  const auto pool = [&](const RouterConfig& router, std::int32_t replicas, std::uint64_t seed) {
    return ReplicaPool{
        .replicas = replicas,
        .router = MakeRouter(router, replicas, kv.block_size, seed, kv.keys_per_block()),
        .telemetry_delay = DurationFromSeconds(router.telemetry_delay_ms * 1e-3)};
  };
  if (system.disaggregation && system.disaggregation->pools.mixed_pool) {
    return std::make_unique<Cluster>(std::move(all), MixedPoolsOf(system, engines));
  }
  std::vector<ReplicaPool> pools;
  if (system.disaggregation) {
    const DisaggregationConfig& split = system.disaggregation->pools;
    pools.push_back(pool(system.router, split.prefill_replicas, config.seed));
    pools.push_back(pool(split.decode_router, split.decode_replicas, ~config.seed));
  } else {
    pools.push_back(pool(system.router, system.replicas, config.seed));
  }
  return std::make_unique<Cluster>(std::move(all), std::move(pools));
}

}  // namespace twin::run
