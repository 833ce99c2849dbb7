// The engines of a deployment, each with its policy.
#pragma once

#include <cstddef>
#include <memory>

#include "run/deployment.h"
#include "sched/cluster.h"
#include "sched/engine.h"

namespace twin::run {

// A fresh engine with its policy, for a deployment with one replica. On the heap, because its parts
// refer to each other.
std::unique_ptr<Engine> MakeEngine(const Deployment& deployment);

// A fresh cluster: the router and the engines of all replicas.
std::unique_ptr<Cluster> MakeCluster(const Deployment& deployment);

// A fresh cluster of engines that are known. REQUIRES: `engines` is one group, or has one entry for
// each of config.system.groups.
std::unique_ptr<Cluster> MakeCluster(const ExperimentConfig& config, const EngineGroups& engines);

// A fresh policy for the replicas of group `group`, or for all if the experiment has no groups.
// REQUIRES: a policy file was loaded.
std::unique_ptr<Policy> MakePolicyOf(const ExperimentConfig& config, std::size_t group,
                                     const KvPoolConfig& kv);

}  // namespace twin::run
