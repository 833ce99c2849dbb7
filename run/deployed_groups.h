// Deployments whose replicas differ.
#pragma once

#include <cstdint>
#include <vector>

#include "run/cost_cache.h"
#include "run/deployment.h"
#include "sched/engine_config.h"

namespace twin {
struct RecordHeader;
}  // namespace twin

namespace twin::run {

// Resolves each group of the experiment by itself, and all of them as one system.
// REQUIRES: config.system.groups is not empty. Throws InputError as Resolve(), and where groups
// differ in what clients and other replicas see of them: block size, prefix caching, drafts,
// delivery of tokens, longest request.
Deployment ResolveGroups(const ExperimentConfig& config, CostCache& cache);

// The engines of all replicas of a recorded run of the experiment.
EngineGroups EnginesOf(const ExperimentConfig& config, const RecordHeader& header);

// Devices of all replicas, groups and pools.
std::int64_t DevicesOf(const Deployment& deployment);

// Usable KV blocks of all replicas.
std::int32_t KvBlocksOf(const EngineGroups& engines);

}  // namespace twin::run
