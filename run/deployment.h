// An experiment as something that runs: everything that follows from its configuration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "config/experiment_config.h"
#include "run/cost_cache.h"
#include "sched/cluster.h"
#include "sched/engine.h"
#include "sched/engine_groups.h"
#include "sched/policy/policy_config.h"
#include "sim/cost/step_cost.h"
#include "sim/devices/kv_capacity.h"
#include "sim/world/sim_world.h"

namespace twin::run {

// A value: copies share the cost model, which is immutable. Runs of one Deployment are independent
// of each other and may happen at the same time.
struct Deployment {
  ExperimentConfig config;
  PolicyTraits traits;
  std::int32_t context_tokens_max = 0;  // prompt + output tokens of one request
  sim::KvCapacity capacity;
  EngineConfig engine;
  std::shared_ptr<const sim::StepCost> cost;  // of a simulated world; null in a real one
  sim::SimWorldOptions world;
  // Requests that the metrics leave out at the start, if these are more than config.metrics asks
  // for.
  std::uint64_t warmup_requests = 0;
  // With config.system.groups, each group as a deployment of that many equal replicas, of which
  // traits, capacity, engine and cost above are those of the first; else empty.
  std::vector<Deployment> groups;

  // The engines of all replicas.
  [[nodiscard]] EngineGroups engines() const;
};

// The only way from a configuration to a run: simulations, real runs, validations and studies all
// pass through it. A real world's config must have its KV blocks filled in (real/real_system.h).
// Takes no memory for a model and reads no file but those that the cost model names.
// Throws InputError (usage) with the field, what is wrong, what is allowed: a KV cache without
// room, a policy that swaps without swap space, a cost model that does not fit the system.
Deployment Resolve(const ExperimentConfig& config);
// The same for one of many: deployments of equal systems share the cost model.
Deployment Resolve(const ExperimentConfig& config, CostCache& cache);

// The same simulation with another seed.
Deployment WithSeed(const Deployment& deployment, std::uint64_t seed);

// Prompt + output tokens of one request: the least of what the model, the planned memory and the
// policy allow. Known before the KV cache is sized.
std::int32_t ContextTokensMax(const ExperimentConfig& config);

// Tokens that a key of a prefix stands for in the deployment's world; 0 = the policy reads no keys.
std::int32_t KeyTokensOf(const Deployment& deployment);

// A fresh engine with its policy, of a deployment with one replica. Pinned to its place, as its
// parts refer to each other.
std::unique_ptr<Engine> MakeEngine(const Deployment& deployment);

// Fresh engines of all replicas behind the router.
std::unique_ptr<Cluster> MakeCluster(const Deployment& deployment);

// The same of an experiment whose engines are known. REQUIRES: one group of engines, or those of
// config.system.groups.
std::unique_ptr<Cluster> MakeCluster(const ExperimentConfig& config, const EngineGroups& engines);

// A fresh policy for the replicas of group `group`, or for all if the experiment has no groups.
std::unique_ptr<Policy> MakePolicyOf(const ExperimentConfig& config, std::size_t group,
                                     const KvPoolConfig& kv);

}  // namespace twin::run
