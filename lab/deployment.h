// An experiment as something that runs: everything that follows from its configuration.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "lab/cost_cache.h"
#include "proto/experiment_config.h"
#include "sched/cluster.h"
#include "sched/engine.h"
#include "sched/policy/registry.h"
#include "sim/cost/step_cost.h"
#include "sim/memory/kv_capacity.h"
#include "sim/sim_world.h"

namespace twin::lab {

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

// A fresh engine with its policy, of a deployment with one replica. Pinned to its place, as its
// parts refer to each other.
std::unique_ptr<Engine> MakeEngine(const Deployment& deployment);

// Fresh engines of all replicas behind the router.
std::unique_ptr<Cluster> MakeCluster(const Deployment& deployment);

// The same with a policy of the caller's for each engine; the experiment says how many there are
// and what routes.
using PolicyMaker = std::function<std::unique_ptr<Policy>(const KvPoolConfig&)>;
std::unique_ptr<Cluster> MakeCluster(const ExperimentConfig& config, const EngineConfig& engine,
                                     const PolicyMaker& make_policy);

}  // namespace twin::lab
