// How the KV cache is sized where an experiment does not say: by the policy.
#pragma once

#include "core/model_spec.h"
#include "sched/policy/policy.h"
#include "sim/devices/kv_capacity.h"

namespace twin::sim {

// The memory rule of the policy's own system, with the largest step and the longest request that
// the policy allows; where it has no limit, the defaults of MemoryConfig. Blocks of latent vectors
// are those of vLLM on an H100.
// REQUIRES: traits.memory_rule is the name of a rule.
MemoryConfig MemoryDefaultsFor(const PolicyTraits& traits, const ModelSpec& model);

}  // namespace twin::sim
