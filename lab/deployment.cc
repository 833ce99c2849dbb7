#include "lab/deployment.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/input_error.h"
#include "sim/cost/registry.h"

namespace twin::lab {
namespace {

void RequireHostBlocksForSwaps(const PolicyTraits& traits, const sim::KvCapacity& capacity) {
  if (!traits.swaps_to_host || capacity.host_blocks > 0) return;
  throw InputError(InputError::Kind::kUsage, "system.memory.swap_bytes",
                   fmt::format("gives no host blocks, but policy.{} swaps requests to the host; "
                               "allowed: at least {}, the bytes of one block, with memory.rule "
                               "vllm_v0 or sarathi",
                               traits.name, capacity.block_bytes));
}

EngineConfig EngineConfigOf(const Deployment& deployment) {
  const sim::KvCapacity& capacity = deployment.capacity;
  EngineConfig engine;
  engine.kv = {.block_size = capacity.block_size,
               .blocks = capacity.usable_blocks,
               .host_blocks = capacity.host_blocks,
               .release_order = deployment.traits.release_order};
  engine.prompt_tokens_max = deployment.context_tokens_max;
  return engine;
}

}  // namespace

std::int32_t ContextTokensMax(const ExperimentConfig& config) {
  std::int32_t tokens = config.system.model_spec.max_position;
  if (const auto planned = config.system.memory.max_model_length) {
    tokens = std::min(tokens, *planned);
  }
  const std::int32_t allowed = TraitsOf(config.policy).context_tokens_max;
  return allowed > 0 ? std::min(tokens, allowed) : tokens;
}

Deployment Resolve(const ExperimentConfig& config) {
  Deployment deployment;
  deployment.config = config;
  ResolveContext(deployment.config.policy, config.system.model_spec.max_position);
  deployment.traits = TraitsOf(deployment.config.policy);
  deployment.context_tokens_max = ContextTokensMax(deployment.config);
  const SystemConfig& system = config.system;
  deployment.capacity = sim::PlanKvCapacity(system.model_spec, system.hardware_spec,
                                            system.parallelism, system.memory);
  RequireHostBlocksForSwaps(deployment.traits, deployment.capacity);
  deployment.engine = EngineConfigOf(deployment);
  if (!std::holds_alternative<SimulatedWorldConfig>(config.world)) return deployment;
  deployment.cost = sim::MakeStepCost(config.cost, system.model_spec, system.hardware_spec,
                                      system.parallelism, deployment.capacity.block_bytes);
  deployment.world = {
      .max_model_length = deployment.context_tokens_max,
      .named_block_size = deployment.traits.caches_prefixes ? system.memory.block_size : 0,
      .boundary = system.boundary,
      .client_timeout = std::get<SimulatedWorldConfig>(config.world).client_timeout,
      .seed = config.seed};
  return deployment;
}

std::unique_ptr<Engine> MakeEngine(const Deployment& deployment) {
  return std::make_unique<Engine>(deployment.engine,
                                  MakePolicy(deployment.config.policy, deployment.engine.kv));
}

}  // namespace twin::lab
