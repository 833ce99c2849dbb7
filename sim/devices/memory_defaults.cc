#include "sim/devices/memory_defaults.h"

#include <algorithm>

#include "core/check.h"
#include "core/layer_groups.h"

namespace twin::sim {

namespace {

// vLLM's FlashMLA wants blocks of 64 tokens.
constexpr std::int32_t kLatentBlock = 64;

bool HasLatents(const ModelSpec& model) {
  return std::ranges::any_of(
      OrderedLayers(model), [](const LayerGroup& group) { return group.layer.latent.has_value(); });
}

}  // namespace

MemoryConfig MemoryDefaultsFor(const PolicyTraits& traits, const ModelSpec& model) {
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
  if (memory.kv_groups && HasLatents(model)) memory.block_size = kLatentBlock;
  memory.caches_prefixes = traits.caches_prefixes;
  memory.window_pool_ratio = traits.window_pool_ratio;
  return memory;
}

}  // namespace twin::sim
