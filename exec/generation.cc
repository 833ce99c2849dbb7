#include "exec/generation.h"

#include <algorithm>
#include <memory>
#include <string>

#include "core/check.h"
#include "core/input_error.h"
#include "exec/grid_backend.h"
#include "exec/model/cache_shape.h"
#include "sched/engine.h"
#include "sched/serve.h"

namespace twin::exec {
namespace {

// Blocks for all prompts at once and for what policies keep free, within the memory allowed, but at
// least enough for the largest prompt.
std::int32_t BlocksFor(const DeviceModel& model, std::span<const Generation> generations,
                       const PolicyTraits& traits, const GenerationOptions& options) {
  const auto blocks_of = [&](std::int64_t tokens) {
    return (tokens + options.block_size - 1) / options.block_size;
  };
  std::int64_t largest = traits.reserves_context ? blocks_of(traits.context_tokens_max) : 0;
  std::int64_t all = 0;
  for (const Generation& g : generations) {
    const std::int64_t blocks =
        blocks_of(static_cast<std::int64_t>(g.prompt.size()) + g.tokens_max);
    largest = std::max(largest, blocks);
    all += blocks;
  }
  const std::int64_t block_bytes =
      model.CacheShape(options.kv_dtype, 1, options.block_size).BlockBytes();
  const std::int64_t within = std::min(all, options.memory_bytes_max / block_bytes);
  const std::int64_t blocks = std::max(largest, within);
  return static_cast<std::int32_t>(blocks + blocks / 16 + 2);
}

void CheckContext(std::span<const Generation> generations, const PolicyTraits& traits) {
  if (traits.context_tokens_max == 0) return;
  for (std::size_t i = 0; i < generations.size(); ++i) {
    const Generation& g = generations[i];
    const std::int64_t tokens = static_cast<std::int64_t>(g.prompt.size()) + g.tokens_max;
    if (tokens <= traits.context_tokens_max) continue;
    throw InputError(InputError::Kind::kData, "prompt number " + std::to_string(i),
                     std::to_string(tokens) + " tokens with its output; the policy allows " +
                         std::to_string(traits.context_tokens_max));
  }
}

std::unique_ptr<Backend> MakeBackend(DeviceModel& model, const ExecutorConfig& config,
                                     KeptLogits keep, Communicator* world) {
  if (world == nullptr || world->size() == 1) return model.MakeExecutor(config);
  return std::make_unique<GridBackend>(model, *world,
                                       RankExecutorConfig{config, keep != KeptLogits::kNone});
}

}  // namespace

std::int32_t LongestSequence(std::span<const Generation> generations) {
  std::int32_t longest = 1;
  for (const Generation& g : generations) {
    longest = std::max(longest, static_cast<std::int32_t>(g.prompt.size()) + g.tokens_max);
  }
  return longest;
}

GenerationCounts Generate(DeviceModel& model, std::span<Generation> generations,
                          const GenerationOptions& options, Communicator* world) {
  PolicyConfig policy = options.policy;
  ResolveContext(policy, LongestSequence(generations));
  const PolicyTraits traits = TraitsOf(policy);
  if (traits.caches_prefixes && options.keep == KeptLogits::kAll) {
    throw InputError(InputError::Kind::kUsage, "",
                     "logits of all prompt tokens need a policy without prefix caching, which "
                     "leaves some uncomputed");
  }
  if (traits.assumes_drafts) {
    throw InputError(InputError::Kind::kUsage, "",
                     "speculative decoding is computed without asynchronous scheduling only");
  }
  if (traits.caches_prefixes) RefuseWithStates(model.config().shape, "prefix caching");
  CheckContext(generations, traits);
  EngineConfig engine_config;
  engine_config.kv = {.block_size = options.block_size,
                      .blocks = options.blocks > 0 ? options.blocks
                                                   : BlocksFor(model, generations, traits, options),
                      .host_blocks = options.host_blocks,
                      .release_order = traits.release_order,
                      .key_tokens = traits.KeyTokens(options.block_size)};
  Engine engine(engine_config, MakePolicy(policy, engine_config.kv));
  const std::unique_ptr<Backend> backend =
      MakeBackend(model,
                  {.kv_dtype = options.kv_dtype,
                   .block_size = options.block_size,
                   .blocks = engine_config.kv.blocks,
                   .host_blocks = options.host_blocks,
                   .returns_logits = options.keep != KeptLogits::kNone,
                   .logits_of_all_rows = options.keep == KeptLogits::kAll,
                   .drafts_max = traits.drafts_max,
                   .draft_model = options.draft_model,
                   .ngram = options.ngram},
                  options.keep, world);
  GenerateWorldOptions world_options{
      .keep = options.keep,
      .end_tokens = {},
      .named_block_size = traits.caches_prefixes ? engine_config.kv.tokens_per_key() : 0,
      .on_step = options.on_step};
  if (options.stops_at_end_tokens) world_options.end_tokens = model.config().end_tokens;
  GenerateWorld generate_world(*backend, generations, std::move(world_options));
  Serve(engine, generate_world);
  engine.CheckDrained();
  return generate_world.counts();
}

}  // namespace twin::exec
