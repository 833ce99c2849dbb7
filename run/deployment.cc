#include "run/deployment.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "config/hardware_file.h"
#include "config/servers/servers.h"
#include "core/check.h"
#include "core/input_error.h"
#include "core/layer_groups.h"
#include "core/nearest_names.h"
#include "run/deployed_groups.h"
#include "run/draft_model_spec.h"
#include "run/ffn_pool_deployment.h"
#include "run/own_policy.h"
#include "sched/engine.h"
#include "sched/policy/system_of_policy.h"
#include "sched/route/router.h"
#include "sim/cost/draft_cost.h"
#include "sim/devices/boundary_profile.h"
#include "sim/devices/profile_config.h"

namespace twin::run {
namespace {

void RequireHostBlocksForSwaps(const PolicyTraits& traits, const sim::KvCapacity& capacity) {
  if (!traits.swaps_to_host || capacity.host_blocks > 0) return;
  throw InputError(InputError::Kind::kUsage, "system.memory.swap_bytes",
                   fmt::format("gives no host blocks, but policy.{} swaps requests to the host; "
                               "allowed: at least {}, the bytes of one block, with memory.rule "
                               "vllm_v0 or sarathi",
                               traits.name, capacity.block_bytes));
}

void RefuseSeveralInstances(const PolicyTraits& traits) {
  if (traits.result_queue != ResultQueue::kInstances) return;
  throw InputError(InputError::Kind::kUsage, fmt::format("policy.{}.instance_count", traits.name),
                   fmt::format("is {}; allowed in a run: 1, because each copy of the model has "
                               "devices and memory of its own",
                               traits.steps_in_flight_max));
}

// The policy decides for two pools only if the memory is divided into two.
void RequireWindowPool(const SystemConfig& system, const PolicyTraits& traits,
                       const sim::KvCapacity& capacity) {
  if (traits.window_parameter.empty() || capacity.window_blocks > 0) return;
  throw InputError(
      InputError::Kind::kUsage, fmt::format("policy.{}.{}", traits.name, traits.window_parameter),
      fmt::format("needs a window pool, which {} has not got; allowed: with memory.rule {} and a "
                  "model that has layers with windows and layers that keep all tokens",
                  system.model_spec.name, traits.memory_rule));
}

void RequirePools(const SystemConfig& system, const PolicyTraits& traits) {
  if (!traits.needs_disaggregation || system.disaggregation) return;
  throw InputError(InputError::Kind::kUsage, fmt::format("policy.{}", traits.name),
                   "has no replicas that both prefill and decode; allowed: with "
                   "system.disaggregation");
}

// Whether the policy can prefill at one replica and decode at another.
void RequireSeparable(const DisaggregatedSystem& system, const PolicyTraits& traits) {
  if (!traits.receives_kv) {
    const char* why = traits.drafts_max > 0 ? "verifies drafts" : "takes in no keys and values";
    throw InputError(InputError::Kind::kUsage, "system.disaggregation",
                     fmt::format("policy.{} {}; allowed: vllm_v1 without speculation, distserve, "
                                 "splitwise",
                                 traits.name, why));
  }
  if (system.pools.mixed_pool && !traits.mixes_phases) {
    throw InputError(InputError::Kind::kUsage, "system.disaggregation.mixed_pool",
                     fmt::format("lets replicas do both phases, but policy.{} keeps them apart; "
                                 "allowed: splitwise",
                                 traits.name));
  }
  if (NeedsCachedPrefixes(system.pools.decode_router.kind) && !traits.caches_prefixes) {
    throw InputError(InputError::Kind::kUsage, "system.disaggregation.decode_router.kind",
                     fmt::format("compares prompts with cached ones, but policy.{} caches none; "
                                 "allowed: a policy that caches prefixes, or another router",
                                 traits.name));
  }
}

void RequireRoutable(const SystemConfig& system, const PolicyTraits& traits) {
  if (system.replicas > 1 && NeedsCachedPrefixes(system.router.kind) && !traits.caches_prefixes) {
    throw InputError(InputError::Kind::kUsage, "system.router.kind",
                     fmt::format("compares prompts with cached ones, but policy.{} caches none; "
                                 "allowed: a policy that caches prefixes, or another router",
                                 traits.name));
  }
  if (system.disaggregation) RequireSeparable(*system.disaggregation, traits);
}

// Transfers between replicas copy one table of equal blocks.
void RefuseTransfersOfKvGroups(const SystemConfig& system, const sim::KvCapacity& capacity) {
  if (!capacity.groups || !system.disaggregation) return;
  throw InputError(
      InputError::Kind::kUsage, "system.disaggregation",
      fmt::format("cannot transfer the block tables of several KV groups, which {} has; allowed: "
                  "system.memory.kv_groups: false, which approximates them",
                  system.model_spec.name));
}

// A cluster counts blocks of all replicas together.
void RequireCountableBlocks(const SystemConfig& system, const sim::KvCapacity& capacity) {
  const std::int32_t most = std::numeric_limits<std::int32_t>::max() / system.replicas;
  if (capacity.usable_blocks <= most) return;
  throw InputError(InputError::Kind::kUsage, "system.replicas",
                   fmt::format("{} of {} KV blocks each are too many; allowed: {} blocks in all",
                               system.replicas, capacity.usable_blocks,
                               std::numeric_limits<std::int32_t>::max()));
}

EngineConfig EngineConfigOf(const Deployment& deployment) {
  const sim::KvCapacity& capacity = deployment.capacity;
  EngineConfig engine;
  engine.kv = {.block_size = capacity.block_size,
               .blocks = capacity.usable_blocks,
               .host_blocks = capacity.host_blocks,
               .release_order = deployment.traits.release_order,
               .key_tokens = deployment.traits.KeyTokens(capacity.block_size),
               .window_blocks = capacity.window_blocks};
  engine.kv_groups = capacity.groups;
  engine.prompt_tokens_max = deployment.context_tokens_max;
  engine.checks_rejections = deployment.config.own_policy != nullptr;
  return engine;
}

// Throws InputError if `name` is no folder, no data sheet and not the experiment's device.
void RequireProfile(const std::string& name, const HardwareSpec& hardware) {
  const bool is_path = name.find('/') != std::string::npos;
  std::error_code error;
  if (is_path && std::filesystem::is_directory(name, error)) return;
  if (name == hardware.name) return;
  const std::span<const std::string_view> devices = HardwarePresetNames();
  if (std::ranges::find(devices, name) != devices.end()) return;
  throw InputError(InputError::Kind::kUsage, "cost.profile.profile",
                   is_path
                       ? fmt::format("'{}' is no folder", name)
                       : fmt::format("no device '{}'; nearest {}; allowed: a device that twinserve "
                                     "doctor --list hardware names, or a folder (with a '/')",
                                     name, NearestNames(name, devices)));
}

// Uncertainty of the experiment's boundary, as the standard deviation of a logarithm: 0 for a
// boundary that the experiment sets itself, else by the server or device profile that filled it in.
double BoundarySpread(const SystemConfig& system, const sim::BoundaryProfile& measured) {
  const std::int32_t ranks = system.parallelism.devices();
  if (system.server) {
    const ServerBoundary served = BoundaryOfServer(*system.server, !system.server_asked, ranks);
    if (system.boundary == served.config) return served.log_sd;
  }
  if (system.boundary != sim::BoundaryOf(measured, ranks)) return 0;
  return sim::BoundaryLogSd(measured, ranks);
}

// Clients of this program's executor are in its own process.
bool IsOwnExecutor(const sim::CostConfig& cost) {
  const auto* const profile = cost.If<sim::ProfileCostConfig>();
  return profile != nullptr && profile->engine == sim::StepEngine::kTwinserve;
}

// The boundary of the simulated world. Fills in the delays of the device's profile, which are those
// of an HTTP server. Delays of a draw are not entered into the configuration, because other draws
// start from it.
std::optional<sim::BoundaryConfig> ResolveBoundary(const sim::CostConfig& cost,
                                                   SystemConfig& system) {
  const sim::BoundaryProfile* const measured = sim::MeasuredBoundary(cost);
  if (measured != nullptr && !IsOwnExecutor(cost)) {
    if (!system.boundary) {
      system.boundary = sim::BoundaryOf(*measured, system.parallelism.devices());
    }
    if (sim::HasDelays(system.boundary)) {
      return sim::DrawnBoundary(*system.boundary, BoundarySpread(system, *measured),
                                sim::DrawOf(cost));
    }
  }
  return sim::HasDelays(system.boundary) ? system.boundary : std::nullopt;
}

// Adds the time of proposing drafts to the cost of steps.
void AddProposer(const std::optional<ModelSpec>& draft, CostCache& cache, Deployment& deployment) {
  const std::optional<SpeculationConfig>& speculation = deployment.config.speculation;
  if (!speculation || !speculation->rules.on()) return;
  RequireDraftCost(deployment.config);
  sim::ProposerCost proposer{.drafts = speculation->rules.num_speculative_tokens,
                             .per_step = speculation->propose,
                             .off_from_running = deployment.traits.drafts_off_from_running};
  if (draft && sim::TraitsOf(deployment.config.cost).prices_drafts) {
    const SystemConfig& system = deployment.config.system;
    proposer.model =
        cache.Cost(deployment.config.cost, *draft, system.hardware_spec,
                   {.tensor = system.parallelism.tensor}, deployment.capacity.block_bytes);
  }
  deployment.cost = std::make_shared<sim::DraftCost>(deployment.cost, std::move(proposer));
}

// Requests whose states the memory holds by SGLang's rule, if layers have states.
std::optional<std::int64_t> StateSlots(const SystemConfig& system,
                                       const sim::KvCapacity& capacity) {
  if (capacity.rule != sim::MemoryRule::kSglang) return std::nullopt;
  const bool has_states = std::ranges::any_of(
      OrderedLayers(system.model_spec),
      [](const LayerGroup& group) { return group.layer.recurrent.has_value(); });
  if (!has_states || capacity.sequence_bytes == 0 || system.memory.blocks_override) {
    return std::nullopt;
  }
  return capacity.sequences_bytes / capacity.sequence_bytes;
}

SystemOfPolicy SystemOf(const Deployment& deployment) {
  const SystemConfig& system = deployment.config.system;
  return {.model = system.model_spec.name,
          .window = sim::WindowBesideAllTokens(system.model_spec),
          .state_slots = StateSlots(system, deployment.capacity)};
}

// Memory, policy and traits ask each other, in this order:
// 1. The model's positions and windows set the limits that the policy leaves open.
// 2. The traits of this policy bound the longest request.
// 3. The memory is planned, with a draft model (`draft` may be null).
// 4. What the memory holds limits the policy.
// 5. The traits are those of the limited policy, or those of `guest`, which decides in its place.
// Returns the traits by which steps are priced: the policy's, but for whether the guest overlaps.
PolicyTraits ResolvePolicy(const ModelSpec* draft, std::shared_ptr<const OwnPolicy> guest,
                           Deployment& deployment) {
  ExperimentConfig& config = deployment.config;
  const SystemConfig& system = config.system;
  ResolveContext(config.policy, system.model_spec.max_position);
  ResolveWindow(config.policy, sim::WindowBesideAllTokens(system.model_spec));
  deployment.context_tokens_max = ContextTokensMax(config);
  deployment.capacity = PlanCapacity(system, draft);
  LimitBySystem(config.policy, SystemOf(deployment));
  PolicyTraits priced = TraitsOf(config);
  deployment.traits = priced;
  if (guest != nullptr) {
    config.own_policy = std::move(guest);
    deployment.traits = TraitsOf(config);
    priced.overlaps_own_steps = deployment.traits.overlaps_own_steps;
  }
  return priced;
}

// Rules by traits hold for policies of callers, too; RequireSystem() asks those of the registry.
void RequireFittingSystem(const Deployment& deployment) {
  const SystemConfig& system = deployment.config.system;
  RequirePools(system, deployment.traits);
  RequireHostBlocksForSwaps(deployment.traits, deployment.capacity);
  RefuseSeveralInstances(deployment.traits);
  RequireWindowPool(system, deployment.traits, deployment.capacity);
  RequireSystem(deployment.config.policy, SystemOf(deployment));
  RefuseTransfersOfKvGroups(system, deployment.capacity);
  RequireRoutable(system, deployment.traits);
  RequireCountableBlocks(system, deployment.capacity);
}

// Resolves an experiment without replica groups. `guest`, if not null, decides.
Deployment ResolveEqualReplicas(const ExperimentConfig& config, CostCache& cache,
                                std::shared_ptr<const OwnPolicy> guest = nullptr) {
  Deployment deployment;
  deployment.config = config;
  const SystemConfig& system = config.system;
  const std::optional<ModelSpec> draft = DraftShapeOf(config);
  const PolicyTraits priced =
      ResolvePolicy(draft ? &*draft : nullptr, std::move(guest), deployment);
  RequireFittingSystem(deployment);
  deployment.engine = EngineConfigOf(deployment);
  if (deployment.capacity.groups) {
    ValidateKvGroups(*deployment.capacity.groups, deployment.traits,
                     deployment.capacity.usable_blocks);
  }
  if (!HasCosts(config.world)) return deployment;
  const auto context_of = [&](const HardwareSpec& device) {
    return sim::CostContext{
        .policy = priced, .hardware = device, .read_profile = [&](const std::string& name) {
          RequireProfile(name, device);
          return cache.Profile(name);
        }};
  };
  sim::Resolve(deployment.config.cost, context_of(system.hardware_spec));
  if (system.ffn) {
    ResolveFfnPoolCost(config.cost, context_of(system.ffn->hardware_spec),
                       deployment.config.system);
  }
  const std::optional<sim::BoundaryConfig> boundary =
      ResolveBoundary(deployment.config.cost, deployment.config.system);
  deployment.cost = CostOfReplica(deployment.config.system, deployment.config.cost,
                                  deployment.capacity.block_bytes, cache);
  AddProposer(draft, cache, deployment);
  deployment.world = {.max_model_length = deployment.context_tokens_max,
                      .named_block_size = KeyTokensOf(deployment),
                      .forgets_stale_tokens = deployment.traits.forgets_stale_tokens,
                      .overlaps_own_steps = deployment.traits.overlaps_own_steps,
                      .boundary = boundary,
                      .client_timeout = ClientTimeout(config.world),
                      .seed = config.seed,
                      .replicas = system.replicas};
  if (deployment.traits.drafts_max > 0) {
    deployment.world.acceptance = config.speculation->acceptance;
    deployment.world.drafts_offered =
        deployment.traits.assumes_drafts ? 0 : deployment.traits.drafts_max;
  }
  return deployment;
}

// Gives the seed to everything that draws random numbers.
void Seed(std::uint64_t seed, Deployment& deployment) {
  deployment.config.seed = seed;
  deployment.workload_seeds = seed;
  deployment.world.seed = seed;
  if (deployment.cost != nullptr) deployment.cost = sim::CostOfSeed(deployment.cost, seed);
  if (deployment.groups.empty()) return;
  for (std::size_t i = 0; i < deployment.groups.size(); ++i) {
    Seed(seed, deployment.groups[i]);
    deployment.world.groups[i].cost = deployment.groups[i].cost.get();
  }
  deployment.cost = deployment.groups.front().cost;
}

}  // namespace

EngineGroups Deployment::engines() const {
  if (groups.empty()) return {{config.system.replicas, engine}};
  EngineGroups all;
  for (const Deployment& group : groups)
    all.push_back({group.config.system.replicas, group.engine});
  return all;
}

std::int32_t KeyTokensOf(const Deployment& deployment) {
  return deployment.traits.caches_prefixes ? deployment.engine.kv.tokens_per_key() : 0;
}

std::int32_t ContextTokensMax(const ExperimentConfig& config) {
  std::int32_t tokens = config.system.model_spec.max_position;
  if (const auto planned = config.system.memory.max_model_length) {
    tokens = std::min(tokens, *planned);
  }
  const std::int32_t allowed = TraitsOf(config).context_tokens_max;
  return allowed > 0 ? std::min(tokens, allowed) : tokens;
}

Deployment Resolve(const ExperimentConfig& config) {
  CostCache cache;
  return Resolve(config, cache);
}

Deployment Resolve(const ExperimentConfig& config, CostCache& cache) {
  if (const auto loaded = WithOwnPolicy(config)) return Resolve(*loaded, cache);
  const SystemConfig& system = config.system;
  Deployment deployment =
      system.groups.empty() ? ResolveEqualReplicas(config, cache) : ResolveGroups(config, cache);
  for (const Deployment& group : deployment.groups) RequireRoutable(system, group.traits);
  if (system.disaggregation) {
    deployment.world.link = system.disaggregation->link;
    deployment.world.kv_token_bytes = static_cast<double>(KvBytesPerToken(system.model_spec));
    deployment.world.kv_layers = system.model_spec.layers;
  }
  Seed(config.seed, deployment);
  return deployment;
}

Deployment ResolveFor(std::shared_ptr<const OwnPolicy> guest, const ExperimentConfig& config,
                      CostCache& cache) {
  if (const auto loaded = WithOwnPolicy(config)) return ResolveFor(guest, *loaded, cache);
  CHECK(config.system.groups.empty() && !config.system.disaggregation);
  Deployment deployment = ResolveEqualReplicas(config, cache, std::move(guest));
  Seed(config.seed, deployment);
  return deployment;
}

Deployment WithSeed(const Deployment& deployment, std::uint64_t seed) {
  Deployment seeded = deployment;
  Seed(seed, seeded);
  return seeded;
}

}  // namespace twin::run
