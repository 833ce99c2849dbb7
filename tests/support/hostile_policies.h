// Every policy of the registry, in every mode, with parameters drawn from a seed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/random.h"
#include "sched/policy/registry.h"

namespace twin::testing {

// A policy with what a world needs to know to provoke it.
struct DrawnPolicy {
  PolicyConfig config;
  std::int32_t context_tokens = 1 << 20;
  std::int32_t host_blocks = 0;
  bool shares_prefixes = false;
  bool priorities = false;
};

struct PolicyMode {
  std::string name;
  // Draws the parameters for a pool of `tokens` tokens.
  std::function<DrawnPolicy(Random&, std::int32_t tokens)> draw;
};

const std::vector<PolicyMode>& PolicyModes();

}  // namespace twin::testing
