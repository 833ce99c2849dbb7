// How the KV cache is sized where an experiment does not say: by the policy.
#pragma once

#include "sched/policy/registry.h"
#include "sim/memory/kv_capacity.h"

namespace twin::sim {

// The memory rule of the policy's own system, with the largest step and the longest request that
// the policy allows; where it has no limit, the defaults of MemoryConfig.
MemoryConfig MemoryDefaultsFor(const PolicyConfig& policy);

}  // namespace twin::sim
