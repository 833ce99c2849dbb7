// Every policy of the registry, in every mode, with parameters drawn from a seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "core/kv_groups.h"
#include "core/random.h"
#include "core/time.h"
#include "sched/policy/registry.h"

namespace twin::testing {

// A policy with what a world needs to know to provoke it.
struct DrawnPolicy {
  PolicyConfig config;
  std::int32_t context_tokens = 1 << 20;
  std::int32_t host_blocks = 0;
  bool shares_prefixes = false;
  bool priorities = false;
  std::optional<KvGroups> kv_groups = {};  // of the model; its pool follows from them
  Duration tick{1};                        // of the world: the scale of the policy's times
};

struct PolicyMode {
  std::string name;
  // Draws the parameters for a pool of `tokens` tokens.
  std::function<DrawnPolicy(Random&, std::int32_t tokens)> draw;
};

inline void PrintTo(const PolicyMode& mode, std::ostream* out) { *out << mode.name; }

const std::vector<PolicyMode>& PolicyModes();

// The config as it is, in worlds whose ticks are 1 ns or 1 us to 10 s, so that a time limit of any
// length is reached in some of them.
PolicyMode DefaultMode(const PolicyConfig& config);

// From `low` to the larger of the two.
inline std::int32_t Draw(Random& random, std::int64_t low, std::int64_t high) {
  return static_cast<std::int32_t>(random.UniformInt(low, std::max(low, high)));
}

// The model's context: shorter than the pool, as vLLM asks for, or nearly so.
inline std::int32_t DrawContext(Random& random, std::int32_t tokens) {
  return Draw(random, std::max(3, tokens / 3), tokens);
}

}  // namespace twin::testing
