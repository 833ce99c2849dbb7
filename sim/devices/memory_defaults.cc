#include "sim/devices/memory_defaults.h"

#include "core/check.h"

namespace twin::sim {

MemoryConfig MemoryDefaultsFor(const PolicyTraits& traits) {
  MemoryConfig memory;
  const auto rule = MemoryRuleNamed(traits.memory_rule);
  CHECK(rule.has_value());
  memory.rule = *rule;
  const std::int32_t tokens =
      traits.sized_for_tokens > 0 ? traits.sized_for_tokens : traits.tokens_per_step_max;
  if (tokens > 0) memory.max_step_tokens = tokens;
  if (traits.sequences_per_step_max > 0) memory.max_sequences = traits.sequences_per_step_max;
  if (traits.context_tokens_max > 0) memory.max_model_length = traits.context_tokens_max;
  memory.kv_groups = traits.keeps_kv_groups;
  memory.caches_prefixes = traits.caches_prefixes;
  memory.window_pool_ratio = traits.window_pool_ratio;
  return memory;
}

}  // namespace twin::sim
