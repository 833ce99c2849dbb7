#include "tests/support/hostile_run.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "run/hostile/hostile_run.h"
#include "run/record/plan_digest.h"
#include "sched/cluster.h"
#include "sched/policy/policy_config.h"

namespace twin::testing {
namespace {

// A pool that holds one sequence of the longest length, or a few blocks more. vLLM counts two
// states, and keeps one more for each further step in flight.
void SetGroups(Random& random, const PolicyTraits& traits, HostileCase& c) {
  const KvGroups& groups = *c.policy.kv_groups;
  c.world.kv_groups = c.engine.kv_groups = groups;
  c.world.block_size = c.world.key_tokens = groups.hash_block;
  std::int64_t blocks = MostBlocks(groups, GroupLimitsOf(traits));
  for (const KvGroup& group : groups.groups) {
    if (group.kind == KvGroupKind::kState) blocks += traits.steps_in_flight_max - 1;
  }
  c.world.blocks = static_cast<std::int32_t>(blocks + random.UniformInt(0, 12));
  c.engine.kv = {.block_size = groups.hash_block,
                 .blocks = c.world.blocks,
                 .release_order = traits.release_order};
}

}  // namespace

HostileCase DrawHostileCase(const PolicyMode& mode, std::uint64_t seed) {
  Random random(seed, mode.name);
  HostileCase c;
  constexpr std::array<std::int32_t, 6> kBlockSizes = {1, 2, 3, 4, 8, 16};
  c.world.seed = seed;
  c.world.block_size = kBlockSizes[static_cast<std::size_t>(random.UniformInt(0, 5))];
  c.world.blocks = static_cast<std::int32_t>(random.UniformInt(2, 24));
  if (c.world.block_size == 1) c.world.blocks += 20;
  c.policy = mode.draw(random, c.world.blocks * c.world.block_size);
  c.world.tick = c.policy.tick;
  c.world.requests_max = random.UnitReal() < 0.3 ? 4 : 25;
  c.world.context_tokens = c.policy.context_tokens;
  c.world.host_blocks = c.policy.host_blocks;
  c.world.shares_prefixes = c.policy.shares_prefixes;
  c.world.priorities = c.policy.priorities;
  const PolicyTraits traits = TraitsOf(c.policy.config);
  c.world.forgets_stale_tokens = traits.forgets_stale_tokens;
  c.world.drafts_max = traits.drafts_max;
  c.world.assumes_drafts = traits.assumes_drafts;
  c.engine.kv = {c.world.block_size, c.world.blocks, c.world.host_blocks, traits.release_order,
                 traits.KeyTokens(c.world.block_size)};
  c.world.key_tokens = c.engine.kv.tokens_per_key();
  if (c.policy.kv_groups) SetGroups(random, traits, c);
  return c;
}

// A few replicas behind any router, whose news take 0 to 20 ticks.
HostileCase DrawHostileCluster(const PolicyMode& mode, std::uint64_t seed) {
  HostileCase c = DrawHostileCase(mode, seed);
  Random random(seed, "cluster");
  c.world.replicas = static_cast<std::int32_t>(random.UniformInt(1, 4));
  c.world.requests_max *= c.world.replicas;
  // A cluster passes no cancellation of what has left, at which an engine alone plans once more.
  if (c.world.replicas == 1) c.world.cancels = false;
  c.router.kind = static_cast<RouterKind>(
      random.UniformInt(0, static_cast<std::int64_t>(RouterKind::kKvOverlap)));
  c.router.telemetry_delay_ms =
      random.UnitReal() < 0.5 ? 0 : static_cast<double>(random.UniformInt(1, 20));
  c.router.balance_abs_threshold = static_cast<std::int32_t>(random.UniformInt(0, 4));
  c.router.max_tree_size = random.UniformInt(1, 20);
  c.router.eviction_interval = c.world.tick * random.UniformInt(1, 50);
  if (random.UnitReal() < 0.3) {
    c.world.further_blocks = static_cast<std::int32_t>(random.UniformInt(1, 8));
  }
  return c;
}

HostileCase DrawHostileSplit(const PolicyMode& mode, std::uint64_t seed) {
  HostileCase c = DrawHostileCluster(mode, seed);
  Random random(seed, "split");
  DisaggregationConfig& split = c.split.emplace();
  split.prefill_replicas = static_cast<std::int32_t>(random.UniformInt(1, 3));
  split.decode_replicas = static_cast<std::int32_t>(random.UniformInt(1, 3));
  split.decode_router = c.router;
  split.decode_router.kind = static_cast<RouterKind>(
      random.UniformInt(0, static_cast<std::int64_t>(RouterKind::kKvOverlap)));
  c.world.requests_max *= random.UnitReal() < 0.5 ? 1 : split.replicas();
  c.world.replicas = split.replicas();
  c.world.prefill_replicas = split.prefill_replicas;
  c.world.cancels = true;
  if (TraitsOf(c.policy.config).mixes_phases && random.UnitReal() < 0.5) {
    const auto tokens = static_cast<std::int32_t>(
        random.UniformInt(0, std::int64_t{c.world.blocks} * c.world.block_size));
    split.mixed_pool = {.prompt_max_pending_batch_tokens = tokens};
    c.world.mixes_phases = true;
  }
  return c;
}

void RunHostileCase(const HostileCase& c, std::unique_ptr<Policy> policy, RunObserver& observer) {
  Engine engine(c.engine, std::move(policy));
  RunHostile(c.world, engine, observer);
}

void RunHostileCluster(const HostileCase& c, const PolicyMaker& make, RunObserver& observer) {
  std::vector<std::unique_ptr<Engine>> engines;
  std::vector<const Engine*> audited;
  for (std::int32_t i = 0; i < c.world.replicas; ++i) {
    EngineConfig config = c.engine;
    config.replica = i;
    config.kv.blocks = c.world.BlocksOf(i);
    engines.push_back(std::make_unique<Engine>(config, make(config.kv)));
    audited.push_back(engines.back().get());
  }
  const auto pool = [&](const RouterConfig& router, std::int32_t replicas) {
    return ReplicaPool{replicas,
                       MakeRouter(router, replicas, c.world.block_size, c.world.seed,
                                  c.engine.kv.keys_per_block()),
                       c.world.tick * static_cast<std::int64_t>(router.telemetry_delay_ms)};
  };
  if (c.split && c.split->mixed_pool) {
    std::vector<std::int32_t> blocks;
    for (std::int32_t i = 0; i < c.world.replicas; ++i) blocks.push_back(c.world.BlocksOf(i));
    MixedPools mixed(*c.split->mixed_pool, c.split->prefill_replicas, blocks, c.world.block_size,
                     c.world.tick * static_cast<std::int64_t>(c.router.telemetry_delay_ms));
    Cluster cluster(std::move(engines), std::move(mixed));
    RunHostile(c.world, cluster, audited, observer);
    return;
  }
  std::vector<ReplicaPool> pools;
  pools.push_back(pool(c.router, c.split ? c.split->prefill_replicas : c.world.replicas));
  if (c.split) pools.push_back(pool(c.split->decode_router, c.split->decode_replicas));
  Cluster cluster(std::move(engines), std::move(pools));
  RunHostile(c.world, cluster, audited, observer);
}

void RunHostileCluster(const HostileCase& c, RunObserver& observer) {
  RunHostileCluster(
      c, [&c](const KvPoolConfig& kv) { return MakePolicy(c.policy.config, kv); }, observer);
}

void RunHostileCase(const HostileCase& c, RunObserver& observer) {
  RunHostileCase(c, MakePolicy(c.policy.config, c.engine.kv), observer);
}

std::uint64_t DigestOf(const HostileCase& c) {
  PlanDigest digest;
  RunHostileCase(c, digest);
  return digest.value();
}

}  // namespace twin::testing
