#include "run/real/real_system.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "config/models/named_model.h"
#include "core/input_error.h"
#include "exec/grid_backend.h"
#include "exec/model/cache_shape.h"
#include "exec/model/model_config.h"
#include "run/available_memory.h"
#include "run/deployment.h"
#include "run/draft_model_spec.h"

namespace twin::run {
namespace {

// The default size of the KV cache, which is also that of vLLM's CPU backend.
constexpr std::int64_t kCacheBytesUnasked = std::int64_t{4} << 30;
// The default of vLLM's gpu_memory_utilization.
constexpr double kDeviceUtilization = 0.9;
constexpr const char* kDummyOption = "world.real.dummy_weights: true";

[[noreturn]] void Refuse(const std::string& where, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, where, what);
}

const RealWorldConfig& RealOf(const ExperimentConfig& config) {
  return std::get<RealWorldConfig>(config.world);
}

bool OnCuda(const ExperimentConfig& config) { return RealOf(config).device == ModelDevice::kCuda; }

// True if the size of the cache is the memory that the loaded model leaves on the device.
bool BlocksAreMeasured(const ExperimentConfig& config) {
  const sim::MemoryConfig& memory = config.system.memory;
  return OnCuda(config) && !memory.blocks_override && !memory.kv_bytes_override;
}

void RequireComputable(const ExperimentConfig& config) {
  if (const PolicyTraits traits = TraitsOf(config); !traits.window_parameter.empty()) {
    Refuse(fmt::format("policy.{}.{}", traits.name, traits.window_parameter),
           "asks for a pool of layers with windows, which no real world has; allowed: 0");
  }
  const ModelSpec& model = config.system.model_spec;
  const ModelDevice device = RealOf(config).device;
  RequireDevice("world.real.device", device, "cpu");
  RequireFormat("system.model_shape.weight_dtype", model.weight_dtype, WeightFormats(device),
                device);
  // Any format of a CPU's cache goes with any of its weights.
  RequireFormat("system.model_shape.kv_dtype", model.kv_dtype,
                KvFormats(device, model.weight_dtype), device);
  RequireModelOptions(RealOf(config).model_options, model.weight_dtype, device,
                      {.fp8_fast_accumulation = "world.real.fp8_fast_accumulation",
                       .attention_kernel = "world.real.attention"});
}

// A draft model is computed in its own format. Its shape is read here, once for the whole run.
void ReadDraftModel(ExperimentConfig& config) {
  const std::optional<ModelSpec> draft = DraftShapeOf(config);
  if (!draft) {
    Refuse("speculation.model",
           "is missing, which a real world computes; allowed: a model directory with "
           "model.safetensors or model.safetensors.index.json, or method: ngram");
  }
  RequireFormat("speculation.model: its weights", draft->weight_dtype,
                WeightFormats(ModelDevice::kCpu), ModelDevice::kCpu);
  config.speculation->draft_shape = draft;
}

// Drafts are computed on one CPU device, by a draft model or from n-grams.
void ResolveSpeculation(ExperimentConfig& config) {
  if (!config.speculation || !config.speculation->rules.on()) return;
  const SpecMethod method = config.speculation->rules.method;
  if (config.speculation->rules.reads_hidden_states()) {
    Refuse("speculation.method",
           "is eagle or mtp, which no real world computes; allowed: ngram, draft_model");
  }
  if (OnCuda(config) || config.system.parallelism.devices() > 1) {
    Refuse("speculation.num_speculative_tokens",
           fmt::format("is {}; allowed: 0, or world.real.device cpu with one rank",
                       config.speculation->rules.num_speculative_tokens));
  }
  if (TraitsOf(config).assumes_drafts) {
    Refuse("policy.vllm_v1.async_scheduling",
           "plans steps before their drafts are known; allowed with speculation: false");
  }
  if (method == SpecMethod::kDraftModel) ReadDraftModel(config);
}

// States of recurrent layers follow a request from its first token on, on one replica.
void RequireStatesFollow(const ExperimentConfig& config) {
  const ModelSpec& model = config.system.model_spec;
  const PolicyTraits traits = TraitsOf(config);
  if (traits.caches_prefixes) exec::RefuseWithStates(model, "prefix caching");
  if (traits.swaps_to_host && config.system.memory.swap_bytes > 0) {
    exec::RefuseWithStates(model, "swapping of blocks");
  }
  if (config.speculation && config.speculation->rules.on()) {
    exec::RefuseWithStates(model, "speculative decoding");
    const auto draft = DraftShapeOf(config);
    if (draft) exec::RefuseWithStates(*draft, "its use as a draft model");
  }
  if (config.system.disaggregation) {
    exec::RefuseWithStates(model, "pools that hand requests over");
  }
}

// Replicas are models of the same weights on one CPU.
void RequireReplicas(const ExperimentConfig& config) {
  const SystemConfig& system = config.system;
  if (!system.groups.empty()) {
    Refuse("system.replica_groups",
           "have no real world, whose replicas share one machine; allowed: world { simulated {} }, "
           "or system.replicas");
  }
  if (system.replicas == 1 || (!OnCuda(config) && system.parallelism.devices() == 1)) return;
  Refuse("system.replicas",
         fmt::format("is {} in a real world with {}; allowed: 1, or world.real.device cpu with one "
                     "rank",
                     system.replicas,
                     OnCuda(config) ? "CUDA devices"
                                    : fmt::format("{} ranks", system.parallelism.devices())));
}

// The executor's activations are fp32 whatever the weights are.
std::int64_t ActivationBytes(ModelSpec model, const SystemConfig& system) {
  model.weight_dtype = DType::kFp32;
  return sim::ActivationBytes(model, system.parallelism, 0, system.memory);
}

sim::KvCapacity CapacityWithin(const ExperimentConfig& config, std::int64_t memory_bytes) {
  const SystemConfig& system = config.system;
  const std::optional<ModelSpec> draft = DraftShapeOf(config);
  HardwareSpec machine = system.hardware_spec;
  machine.memory_bytes = std::max<std::int64_t>(memory_bytes - system.memory.swap_bytes, 0);
  return sim::PlanKvCapacity(system.model_spec, machine, system.parallelism, system.memory,
                             draft ? &*draft : nullptr);
}

void RequireFit(const ExperimentConfig& config, const sim::KvCapacity& capacity,
                std::int64_t memory_bytes) {
  const std::int64_t blocks = std::int64_t{capacity.blocks} + capacity.host_blocks;
  const std::int64_t cache = blocks * capacity.block_bytes;
  const ModelSpec& model = config.system.model_spec;
  const std::int64_t states =
      exec::HasStates(model) ? config.system.memory.max_sequences * capacity.sequence_bytes : 0;
  const std::int64_t needed = capacity.weight_bytes + capacity.activation_bytes + states + cache;
  if (needed <= memory_bytes) return;
  const auto text = [](std::int64_t bytes) { return Gigabytes(static_cast<double>(bytes)); };
  Refuse("system.memory", config.system.model_spec.name + " needs " + text(needed) + " (weights " +
                              text(capacity.weight_bytes) + ", activations " +
                              text(capacity.activation_bytes) + ", " + std::to_string(blocks) +
                              " blocks " + text(cache) +
                              (states > 0 ? ", states " + text(states) : "") + "); allowed: the " +
                              text(memory_bytes) + " available");
}

// The bytes of a block as the executor keeps it.
std::int64_t HeldBlockBytes(const ExperimentConfig& config, std::int32_t stage) {
  const SystemConfig& system = config.system;
  std::int64_t token = HeldBytesPerToken(system.model_spec, system.parallelism, stage);
  if (const auto draft = DraftShapeOf(config)) token += HeldBytesPerToken(*draft, {}, 0);
  return token * system.memory.block_size;
}

// Where windows lie in blocks, fewer of them fit than the rule of system.memory says.
void FitHeldBlocks(const ExperimentConfig& config, sim::KvCapacity& capacity) {
  const std::int64_t held = HeldBlockBytes(config, capacity.stage);
  if (held == capacity.block_bytes) return;
  if (!config.system.memory.blocks_override) {
    const std::int64_t bytes = std::int64_t{capacity.blocks} * capacity.block_bytes;
    capacity.blocks = static_cast<std::int32_t>(bytes / held);
  }
  capacity.block_bytes = held;
}

void SetBlocks(std::int64_t memory_bytes, ExperimentConfig& config) {
  sim::MemoryConfig& memory = config.system.memory;
  const bool unasked = !memory.blocks_override && !memory.kv_bytes_override && !memory.utilization;
  sim::KvCapacity capacity = CapacityWithin(config, memory_bytes);
  if (unasked) {
    const std::int64_t longest = (capacity.max_model_length + memory.block_size - 1) /
                                 memory.block_size * capacity.block_bytes;
    // One block more, because a rule may keep a null block.
    const std::int64_t bytes = std::max(kCacheBytesUnasked, longest + capacity.block_bytes);
    if (capacity.kv_bytes > bytes) {
      memory.kv_bytes_override = bytes;
      capacity = CapacityWithin(config, memory_bytes);
    }
  }
  FitHeldBlocks(config, capacity);
  RequireFit(config, capacity, memory_bytes);
  memory.kv_bytes_override.reset();
  memory.blocks_override = capacity.blocks;
}

// The memory of one replica: all replicas share the weights and divide the rest.
std::int64_t MemoryOfReplica(const ExperimentConfig& config, std::int64_t memory_bytes) {
  const SystemConfig& system = config.system;
  std::int64_t weights = WeightBytesPerRank(system.model_spec, system.parallelism, 0);
  if (const auto draft = DraftShapeOf(config)) weights += WeightBytesPerRank(*draft, {}, 0);
  weights = std::min(weights, memory_bytes);
  return weights + (memory_bytes - weights) / system.replicas;
}

// Checks the swap space alone, because everything else of a model on CUDA devices takes little of
// the machine's memory.
void RequireSwapSpace(const ExperimentConfig& config, std::int64_t memory_bytes) {
  const std::int64_t needed = config.system.memory.swap_bytes * config.system.parallelism.devices();
  if (needed <= memory_bytes) return;
  Refuse("system.memory.swap_bytes",
         "is " + Gigabytes(static_cast<double>(needed)) + " for all ranks; allowed: the " +
             Gigabytes(static_cast<double>(memory_bytes)) + " available");
}

// Turns kv_bytes_override, or a given number of blocks, into the number of blocks.
void FixBlocks(ExperimentConfig& config) {
  sim::MemoryConfig& memory = config.system.memory;
  const SystemConfig& system = config.system;
  const sim::KvCapacity capacity =
      sim::PlanKvCapacity(system.model_spec, system.hardware_spec, system.parallelism, memory);
  memory.kv_bytes_override.reset();
  memory.blocks_override = capacity.blocks;
}

// Measures the number of blocks. Collective over all ranks.
void MeasureBlocks(ExperimentConfig& config, exec::DeviceModel& model, exec::Communicator& world) {
  sim::MemoryConfig& memory = config.system.memory;
  const std::int64_t bytes = MeasureKvBytesOfAll(model, *memory.utilization, world);
  if (world.rank() > 0) return;
  if (bytes < 1) {
    Refuse("system.memory.utilization",
           fmt::format("is {}, of which ", *memory.utilization) + config.system.model_spec.name +
               " and a step of " + std::to_string(memory.max_step_tokens) + " tokens leave " +
               Gigabytes(static_cast<double>(bytes)) +
               " for the KV cache; allowed: more, a smaller model, or smaller steps");
  }
  memory.kv_bytes_override = bytes;
  FixBlocks(config);
}

void RequireShape(ModelSpec own, const SystemConfig& system) {
  own.name = system.model_spec.name;
  own.weight_dtype = system.model_spec.weight_dtype;
  own.kv_dtype = system.model_spec.kv_dtype;
  if (own == system.model_spec) return;
  Refuse("system.model_shape",
         "changes the shape of system.model, which a real world computes as it is; allowed: "
         "weight_dtype, kv_dtype, or a model_shape without a model");
}

RankModelOptions RankOptionsOf(const ExperimentConfig& config, const ComputedModel& model) {
  return {.config = model.config,
          .weights = model.weights,
          .seed = config.seed,
          .format = config.system.model_spec.weight_dtype,
          .model_options = RealOf(config).model_options,
          .grid = config.system.parallelism,
          .positions = ContextTokensMax(config),
          .threads = RealOf(config).threads,
          .device = RealOf(config).device,
          .largest_step = {.tokens = config.system.memory.max_step_tokens,
                           .sequences = config.system.memory.max_sequences}};
}

RankModelOptions DraftOptionsOf(const ExperimentConfig& config, const ComputedModel& draft) {
  RankModelOptions options = RankOptionsOf(config, draft);
  options.format = draft.config.shape.weight_dtype;
  options.positions = std::min(options.positions, draft.config.shape.max_position);
  return options;
}

ComputedModel FindDraftModel(const ExperimentConfig& config, const ComputedModel& target) {
  ComputedModel draft = ReadServedModel({.option = "speculation.model",
                                         .model = config.speculation->draft_model,
                                         .dummy_weights = RealOf(config).dummy_weights,
                                         .dummy_option = kDummyOption});
  const std::int32_t vocab = draft.config.shape.vocab;
  if (vocab == target.config.shape.vocab) return draft;
  Refuse("speculation.model",
         fmt::format("has a vocabulary of {} tokens, but that of system.model has {}; allowed: a "
                     "draft model of the same vocabulary",
                     vocab, target.config.shape.vocab));
}

}  // namespace

ExperimentConfig ResolveForThisMachine(const ExperimentConfig& config, std::int64_t memory_bytes) {
  RequireComputable(config);
  ExperimentConfig real = config;
  ResolveSpeculation(real);
  RequireReplicas(config);
  RequireStatesFollow(real);
  SystemConfig& system = real.system;
  auto& world = std::get<RealWorldConfig>(real.world);
  if (world.threads == 0) {
    const auto machine = static_cast<std::int32_t>(std::thread::hardware_concurrency());
    world.threads = std::max(machine / (system.parallelism.devices() * system.replicas), 1);
  }
  sim::MemoryConfig& memory = system.memory;
  memory.kv_groups = false;
  const std::int32_t positions = system.model_spec.max_position;
  memory.max_model_length = std::min(memory.max_model_length.value_or(positions), positions);
  if (!TraitsOf(real).swaps_to_host) memory.swap_bytes = 0;
  if (OnCuda(real)) {
    RequireSwapSpace(real, memory_bytes);
    if (!memory.utilization) memory.utilization = kDeviceUtilization;
    if (!BlocksAreMeasured(real)) FixBlocks(real);
    return real;
  }
  if (!memory.activation_bytes) {
    memory.activation_bytes = ActivationBytes(system.model_spec, system);
    if (const auto draft = DraftShapeOf(real)) {
      *memory.activation_bytes += ActivationBytes(*draft, system);
    }
  }
  SetBlocks(MemoryOfReplica(real, memory_bytes) / system.parallelism.devices(), real);
  return real;
}

ServedModels FindServedModels(const ExperimentConfig& config) {
  const SystemConfig& system = config.system;
  const bool dummy = RealOf(config).dummy_weights;
  ServedModels models;
  ComputedModel& served = models.target;
  if (NamesModelPath(system.model)) {
    served = ReadServedModel({.option = "system.model",
                              .model = system.model,
                              .dummy_weights = dummy,
                              .dummy_option = kDummyOption});
    // Rotary positions have no weights, so a model has as many positions as its server allows.
    ModelSpec& shape = served.config.shape;
    if (shape.learned_positions == 0) shape.max_position = system.model_spec.max_position;
    RequireShape(shape, system);
  } else {
    if (!dummy) {
      Refuse("system.model", fmt::format("is a shape without weights; allowed: a model directory "
                                         "with model.safetensors or model.safetensors.index.json, "
                                         "or {}",
                                         kDummyOption));
    }
    served.config = exec::ConfigOfShape(system.model_spec);
  }
  exec::ValidateGrid(served.config, system.parallelism);
  if (DraftShapeOf(config)) models.draft = FindDraftModel(config, served);
  return models;
}

ServingDevice::ServingDevice(ExperimentConfig& config, const ServedModels& models,
                             exec::Communicator* processes, RunControl& control)
    : world_(processes), speculation_(config.speculation) {
  if (processes == nullptr) {
    followers_ = std::make_unique<exec::ThreadFollowers>(
        config.system.parallelism.devices(), RealOf(config).rank_timeout,
        [config, target = models.target](exec::Communicator& world) {
          FollowServing(config, target, world);
        });
    world_ = &followers_->world();
  }
  rank_ = LoadRankModel(RankOptionsOf(config, models.target), *world_, control);
  if (rank_.model == nullptr) {
    // The rank that failed aborts the group and gives the reason to the waiting ranks.
    for (;;) world_->Barrier();
  }
  if (BlocksAreMeasured(config)) MeasureBlocks(config, *rank_.model, *world_);
  for (std::int32_t i = 1; i < config.system.replicas; ++i) {
    RankModel& replica = further_replicas_.emplace_back();
    replica.pool = std::make_unique<kernels::ThreadPool>(RealOf(config).threads);
    replica.model = rank_.model->WithSameWeights(*replica.pool);
  }
  if (models.draft) LoadDraftModels(DraftOptionsOf(config, *models.draft), control);
}

// The pool of a replica's served model also computes its draft model: the two take turns.
void ServingDevice::LoadDraftModels(const RankModelOptions& options, RunControl& control) {
  const RankModel loaded = LoadRankModel(options, *world_, control);
  draft_models_.push_back(loaded.model->WithSameWeights(*rank_.pool));
  for (const RankModel& replica : further_replicas_) {
    draft_models_.push_back(loaded.model->WithSameWeights(*replica.pool));
  }
}

std::unique_ptr<exec::SpeedProbe> ServingDevice::MakeSpeedProbe() {
  const bool alone = world_->size() == 1 && further_replicas_.empty();
  return alone ? rank_.model->MakeSpeedProbe() : nullptr;
}

std::vector<std::unique_ptr<exec::Backend>> ServingDevice::MakeBackends(const EngineConfig& engine,
                                                                        DType kv_dtype) {
  exec::ExecutorConfig executor{.kv_dtype = kv_dtype,
                                .block_size = engine.kv.block_size,
                                .blocks = engine.kv.blocks,
                                .host_blocks = engine.kv.host_blocks,
                                .returns_logits = false};
  if (speculation_) {
    executor.drafts_max = speculation_->rules.num_speculative_tokens;
    executor.ngram = {speculation_->prompt_lookup_min, speculation_->prompt_lookup_max};
  }
  std::vector<std::unique_ptr<exec::Backend>> backends;
  if (world_->size() > 1) {
    backends.push_back(std::make_unique<exec::GridBackend>(
        *rank_.model, *world_, exec::RankExecutorConfig{.executor = executor}));
    return backends;
  }
  const auto add = [&](const RankModel& replica) {
    if (!draft_models_.empty()) executor.draft_model = draft_models_[backends.size()].get();
    backends.push_back(replica.model->MakeExecutor(executor));
  };
  add(rank_);
  for (const RankModel& replica : further_replicas_) add(replica);
  return backends;
}

bool FollowServing(const ExperimentConfig& config, const ComputedModel& model,
                   exec::Communicator& processes) {
  RunControl silent;  // rank 0 reports
  const RankModel rank = LoadRankModel(RankOptionsOf(config, model), processes, silent);
  if (rank.model == nullptr) return false;
  ExperimentConfig own = config;
  if (BlocksAreMeasured(own)) MeasureBlocks(own, *rank.model, processes);
  exec::Follow(*rank.model, processes);
  return true;
}

}  // namespace twin::run
