// What a policy says about the memory that its system serves from.
#pragma once

#include "sched/policy/registry.h"
#include "sim/memory/kv_capacity.h"

namespace twin {

// The memory rule of the policy's own system, with the largest step that the policy can ask for
// where it bounds it.
sim::MemoryConfig MemoryDefaultsFor(const PolicyConfig& policy);

}  // namespace twin
