// A deployment: everything that follows from the configuration of an experiment, ready to run.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "config/experiment_config.h"
#include "run/cost_cache.h"
#include "sched/engine_config.h"
#include "sched/policy/policy_config.h"
#include "sim/cost/step_cost.h"
#include "sim/devices/kv_capacity.h"
#include "sim/world/sim_world_options.h"

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
  WorkloadSeeds workload_seeds;  // config.seed, unless the caller sets others
  // Requests that the metrics leave out at the start, if more than config.metrics asks for.
  std::uint64_t warmup_requests = 0;
  // Each of config.system.groups as a deployment of equal replicas; empty without groups. Traits,
  // capacity, engine and cost above are then the first group's.
  std::vector<Deployment> groups;

  // The engines of all replicas.
  [[nodiscard]] EngineGroups engines() const;
};

// The only way from a configuration to a run: simulations, real runs, validations and studies all
// pass through it. A real world's config must have its KV blocks filled in (real/real_system.h).
// Allocates no memory for a model, and reads only the files that the cost model names.
// Throws InputError (usage) with the field, what is wrong, what is allowed: a KV cache without
// room, a policy that swaps without swap space, a cost model that does not fit the system.
Deployment Resolve(const ExperimentConfig& config);
// Resolves one of many experiments: deployments of equal systems share the cost model.
Deployment Resolve(const ExperimentConfig& config, CostCache& cache);

// Resolves an experiment without drafts and KV groups in which `guest` decides in place of its
// policy, on the system of that policy: memory, the limits of a request and the host do not depend
// on what the guest's traits say of them, but for whether it overlaps its own steps.
Deployment ResolveFor(std::shared_ptr<const OwnPolicy> guest, const ExperimentConfig& config,
                      CostCache& cache);

// A copy of the deployment with another seed.
Deployment WithSeed(const Deployment& deployment, std::uint64_t seed);

// Largest number of prompt + output tokens of one request that model, planned memory and policy
// all allow. Known before the KV cache is sized.
std::int32_t ContextTokensMax(const ExperimentConfig& config);

// Tokens per key of a prefix in the deployment's world; 0 if the policy reads no keys.
std::int32_t KeyTokensOf(const Deployment& deployment);

}  // namespace twin::run
