#include "apps/real_system.h"

#include <algorithm>
#include <initializer_list>
#include <iostream>
#include <string>
#include <thread>
#include <utility>

#include "apps/available_memory.h"
#include "apps/experiment_run.h"
#include "core/input_error.h"
#include "exec/grid_backend.h"
#include "exec/model/shape_config.h"
#include "proto/hf_config.h"

namespace twin::apps {
namespace {

namespace fs = std::filesystem;

// What vLLM's CPU backend gives its KV cache, too, if nothing is said.
constexpr std::int64_t kCacheBytesUnasked = std::int64_t{4} << 30;

[[noreturn]] void Refuse(const std::string& where, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, where, what);
}

const RealWorldConfig& RealOf(const ExperimentConfig& config) {
  return std::get<RealWorldConfig>(config.world);
}

void RequireFormat(const std::string& field, DType format, std::initializer_list<DType> allowed) {
  std::string names;
  for (const DType type : allowed) {
    if (type == format) return;
    names += (names.empty() ? "" : ", ") + std::string(Name(type));
  }
  Refuse(
      "system.model_shape." + field,
      "is " + std::string(Name(format)) + ", which a CPU does not compute with; allowed: " + names);
}

void RequireComputable(const ExperimentConfig& config) {
  const SystemConfig& system = config.system;
  if (RealOf(config).device == RealWorldConfig::Device::kCuda) {
    Refuse("world.real.device", "is CUDA, for which this build has no executor; allowed: CPU");
  }
  RequireFormat("weight_dtype", system.model_spec.weight_dtype,
                {DType::kFp32, DType::kBf16, DType::kInt8});
  RequireFormat("kv_dtype", system.model_spec.kv_dtype, {DType::kFp32, DType::kBf16});
}

// The executor's activations are fp32 whatever the weights are.
std::int64_t ActivationBytes(const SystemConfig& system) {
  ModelSpec wide = system.model_spec;
  wide.weight_dtype = DType::kFp32;
  return sim::ActivationBytes(wide, system.parallelism, 0, system.memory);
}

sim::KvCapacity CapacityWithin(const SystemConfig& system, std::int64_t memory_bytes) {
  HardwareSpec machine = system.hardware_spec;
  machine.memory_bytes = std::max<std::int64_t>(memory_bytes - system.memory.swap_bytes, 0);
  return sim::PlanKvCapacity(system.model_spec, machine, system.parallelism, system.memory);
}

void RequireFit(const ExperimentConfig& config, const sim::KvCapacity& capacity,
                std::int64_t memory_bytes) {
  const std::int64_t blocks = std::int64_t{capacity.blocks} + capacity.host_blocks;
  const std::int64_t cache = blocks * capacity.block_bytes;
  const std::int64_t needed = capacity.weight_bytes + capacity.activation_bytes + cache;
  if (needed <= memory_bytes) return;
  const auto text = [](std::int64_t bytes) { return Gigabytes(static_cast<double>(bytes)); };
  Refuse("system.memory", config.system.model_spec.name + " needs " + text(needed) + " (weights " +
                              text(capacity.weight_bytes) + ", activations " +
                              text(capacity.activation_bytes) + ", " + std::to_string(blocks) +
                              " blocks " + text(cache) + "); allowed: the " + text(memory_bytes) +
                              " available");
}

void SetBlocks(std::int64_t memory_bytes, ExperimentConfig& config) {
  sim::MemoryConfig& memory = config.system.memory;
  const bool unasked = !memory.blocks_override && !memory.kv_bytes_override && !memory.utilization;
  sim::KvCapacity capacity = CapacityWithin(config.system, memory_bytes);
  if (unasked) {
    const std::int64_t longest = (capacity.max_model_length + memory.block_size - 1) /
                                 memory.block_size * capacity.block_bytes;
    // One more, as a rule may keep a null block.
    const std::int64_t bytes = std::max(kCacheBytesUnasked, longest + capacity.block_bytes);
    if (capacity.kv_bytes > bytes) {
      memory.kv_bytes_override = bytes;
      capacity = CapacityWithin(config.system, memory_bytes);
    }
  }
  RequireFit(config, capacity, memory_bytes);
  memory.kv_bytes_override.reset();
  memory.blocks_override = capacity.blocks;
}

bool HoldsWeights(const fs::path& directory) {
  return fs::exists(directory / "model.safetensors") ||
         fs::exists(directory / "model.safetensors.index.json");
}

// The folder of system.model where that is a path, else empty.
fs::path ModelDirectory(const SystemConfig& system) {
  if (system.model.find('/') == std::string::npos) return {};
  const fs::path path = system.model;
  if (fs::is_directory(path)) return path;
  if (path.filename() == "config.json") return path.parent_path();
  Refuse("system.model", path.string() +
                             " is named otherwise than a model directory's config.json, which a "
                             "real world reads; allowed: that file, or its folder");
}

void RequireOwnShape(const SystemConfig& system) {
  ModelSpec own = ReadHfConfig(system.model);
  own.name = system.model_spec.name;
  own.weight_dtype = system.model_spec.weight_dtype;
  own.kv_dtype = system.model_spec.kv_dtype;
  if (own == system.model_spec) return;
  Refuse("system.model_shape",
         "changes the shape of system.model, which a real world computes as it is; allowed: "
         "weight_dtype, kv_dtype, or a model_shape without a model");
}

RankModelOptions RankOptionsOf(const ExperimentConfig& config, const ServedModel& model) {
  return {.config = model.config,
          .weights = model.weights,
          .seed = config.seed,
          .format = config.system.model_spec.weight_dtype,
          .grid = config.system.parallelism,
          .positions = ContextTokensMax(config),
          .threads = RealOf(config).threads};
}

}  // namespace

ExperimentConfig OnThisMachine(const ExperimentConfig& config, std::int64_t memory_bytes) {
  RequireComputable(config);
  ExperimentConfig real = config;
  SystemConfig& system = real.system;
  auto& world = std::get<RealWorldConfig>(real.world);
  if (world.threads == 0) {
    const auto machine = static_cast<std::int32_t>(std::thread::hardware_concurrency());
    world.threads = std::max(machine / system.parallelism.devices(), 1);
  }
  sim::MemoryConfig& memory = system.memory;
  const std::int32_t positions = system.model_spec.max_position;
  memory.max_model_length = std::min(memory.max_model_length.value_or(positions), positions);
  if (!memory.activation_bytes) memory.activation_bytes = ActivationBytes(system);
  if (!SwapsToHost(real.policy)) memory.swap_bytes = 0;
  SetBlocks(memory_bytes / system.parallelism.devices(), real);
  return real;
}

ServedModel ServedModelOf(const ExperimentConfig& config) {
  const SystemConfig& system = config.system;
  const bool dummy = RealOf(config).dummy_weights;
  const fs::path directory = ModelDirectory(system);
  if (!dummy && (directory.empty() || !HoldsWeights(directory))) {
    Refuse("system.model",
           (directory.empty() ? "is a shape" : directory.string() + " is there, but") +
               std::string(" without weights; allowed: a folder with "
                           "model.safetensors or model.safetensors.index.json, or "
                           "world.real.dummy_weights: true"));
  }
  if (!directory.empty()) RequireOwnShape(system);
  ServedModel served{
      directory.empty() ? exec::ConfigOfShape(system.model_spec) : exec::ReadModelConfig(directory),
      dummy ? fs::path() : directory};
  exec::ValidateGrid(served.config, system.parallelism);
  return served;
}

ServingDevice MakeServingDevice(const ExperimentConfig& config, const ServedModel& model,
                                const EngineConfig& engine, exec::Communicator* processes) {
  ServingDevice device;
  if (processes == nullptr) {
    device.followers = std::make_unique<exec::ThreadFollowers>(
        config.system.parallelism.devices(), RealOf(config).rank_timeout,
        [config, model](exec::Communicator& world) { FollowServing(config, model, world); });
  }
  exec::Communicator& world = processes != nullptr ? *processes : device.followers->world();
  device.rank = LoadRankModel(RankOptionsOf(config, model), world);
  if (device.rank.model == nullptr) {
    // The rank that failed aborts the group, and gives its reason to whoever waits.
    for (;;) world.Barrier();
  }
  const exec::ExecutorConfig executor{.kv_dtype = config.system.model_spec.kv_dtype,
                                      .block_size = engine.kv.block_size,
                                      .blocks = engine.kv.blocks,
                                      .host_blocks = engine.kv.host_blocks,
                                      .returns_logits = false};
  if (world.size() == 1) {
    device.backend = device.rank.model->MakeExecutor(executor);
  } else {
    device.backend = std::make_unique<exec::GridBackend>(
        *device.rank.model, world, exec::RankExecutorConfig{.executor = executor});
  }
  return device;
}

bool FollowServing(const ExperimentConfig& config, const ServedModel& model,
                   exec::Communicator& processes) {
  const RankModel rank = LoadRankModel(RankOptionsOf(config, model), processes);
  if (rank.model == nullptr) return false;
  exec::Follow(*rank.model, processes);
  return true;
}

}  // namespace twin::apps
