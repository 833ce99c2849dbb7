// vLLM V1 with models whose layers keep different tokens, with parameters drawn from a seed.
#pragma once

#include <vector>

#include "tests/support/hostile_policies.h"

namespace twin::testing {

// Windows, chunks and states, alone and beside full groups, in the modes that change when blocks
// are given back.
const std::vector<PolicyMode>& GroupModes();

}  // namespace twin::testing
