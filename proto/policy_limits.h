// What a policy's config says about steps, and which configs contradict themselves.
#pragma once

#include <string>

#include "sched/policy/registry.h"
#include "sim/memory/kv_capacity.h"

namespace twin {

// The memory rule of the policy's own system, with the largest step that the policy can ask for
// where its config bounds it.
sim::MemoryConfig MemoryDefaultsFor(const PolicyConfig& policy);

// Throws InputError(kUsage) "policy.vllm_v1.field: what is wrong, what is allowed" if fields, each
// in its range, contradict each other. Rules are those of the original systems.
void Validate(const PolicyConfig& policy);

}  // namespace twin
