#include "run/ffn_pool_deployment.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/input_error.h"
#include "core/layer_groups.h"
#include "run/ffn_pool_work.h"
#include "sched/cache/kv_limits.h"
#include "sim/cost/ffn_pool_cost.h"
#include "sim/cost/ffn_pool_models.h"
#include "sim/devices/device_work.h"
#include "sim/devices/profile_config.h"

namespace twin::run {
namespace {

void MultiplyBlocks(std::int32_t groups, sim::KvCapacity& capacity) {
  if (std::int64_t{groups} * std::max(capacity.blocks, capacity.window_blocks) > kKvBlocksMax) {
    throw InputError(
        InputError::Kind::kUsage, "system.ffn.attention_groups",
        fmt::format("{} with {} KV blocks each are too many; allowed: {} blocks in all", groups,
                    capacity.blocks, kKvBlocksMax));
  }
  capacity.blocks *= groups;
  capacity.usable_blocks *= groups;
  capacity.window_blocks *= groups;
}

// The mean of a number of the replica's own devices and of those of the pool.
double MeanOf(const SystemConfig& system, double own, double pool) {
  const double devices = system.devices();
  const double others = system.ffn->devices;
  return ((devices - others) * own + others * pool) / devices;
}

}  // namespace

sim::KvCapacity PlanCapacity(const SystemConfig& system, const ModelSpec* draft) {
  if (!system.ffn) {
    return sim::PlanKvCapacity(system.model_spec, system.hardware_spec, system.parallelism,
                               system.memory, draft);
  }
  sim::ValidateSplit(system.model_spec, system.parallelism, *system.ffn);
  sim::RequireFfnPoolFits(system.model_spec, *system.ffn);
  ModelSpec model = system.model_spec;
  // Equal layers have one table of blocks for all tokens, also if some of them have a window.
  if (!ListsLayers(model)) model.sliding_window = 0;
  sim::KvCapacity capacity = sim::PlanKvCapacity(sim::WithoutMlps(model), system.hardware_spec,
                                                 system.parallelism, system.memory, draft);
  if (!system.memory.blocks_override) MultiplyBlocks(system.ffn->attention_groups, capacity);
  return capacity;
}

void ResolveFfnPoolCost(const sim::CostConfig& asked, const sim::CostContext& context,
                        SystemConfig& system) {
  if (!system.ffn->cost) {
    system.ffn->cost = asked;
    auto* const profile = system.ffn->cost->If<sim::ProfileCostConfig>();
    const bool other = context.hardware.name != system.hardware_spec.name;
    if (profile != nullptr && other) profile->profile.clear();
  }
  sim::Resolve(*system.ffn->cost, context);
}

std::shared_ptr<const sim::StepCost> CostOfReplica(const SystemConfig& system,
                                                   const sim::CostConfig& cost,
                                                   std::int64_t kv_block_bytes, CostCache& cache) {
  if (!system.ffn) {
    return cache.Cost(cost, system.model_spec, system.hardware_spec, system.parallelism,
                      kv_block_bytes);
  }
  return std::make_shared<sim::FfnPoolCost>(
      sim::AttentionSide{.model = system.model_spec,
                         .hardware = system.hardware_spec,
                         .parallelism = system.parallelism,
                         .cost = cost,
                         .kv_block_bytes = kv_block_bytes},
      *system.ffn,
      [&cache](const sim::CostConfig& config, const ModelSpec& model, const HardwareSpec& hardware,
               const Parallelism& parallelism, std::int64_t block_bytes) {
        return cache.Cost(config, model, hardware, parallelism, block_bytes);
      });
}

std::optional<EnergySpec> EnergyOf(const SystemConfig& system) {
  const std::optional<EnergySpec>& own = system.hardware_spec.energy;
  if (!system.ffn || !own) return own;
  const std::optional<EnergySpec>& pool = system.ffn->hardware_spec.energy;
  if (!pool) return std::nullopt;
  const bool idles = own->idle_watts > 0 && pool->idle_watts > 0;
  EnergySpec mean = *own;
  mean.idle_watts = idles ? MeanOf(system, own->idle_watts, pool->idle_watts) : 0;
  mean.base_watts = MeanOf(system, own->base_watts, pool->base_watts);
  mean.limit_watts = MeanOf(system, own->limit_watts, pool->limit_watts);
  return mean;
}

std::optional<PriceSpec> PriceOf(const SystemConfig& system) {
  const std::optional<PriceSpec>& own = system.hardware_spec.price;
  if (!system.ffn || !own) return own;
  const std::optional<PriceSpec>& pool = system.ffn->hardware_spec.price;
  if (!pool) return std::nullopt;
  PriceSpec mean = *own;
  mean.usd_per_hour = MeanOf(system, own->usd_per_hour, pool->usd_per_hour);
  return mean;
}

std::function<MeteredWork(const StepTotals&, std::int64_t, double)> WorkOf(
    const SystemConfig& system) {
  const EnergySpec own = *system.hardware_spec.energy;
  const double devices = system.devices();
  if (system.ffn) {
    const EnergySpec pool = *system.ffn->hardware_spec.energy;
    const double others = system.ffn->devices;
    const FfnPoolWorkModel model(system.model_spec, system.hardware_spec, system.parallelism,
                                 *system.ffn);
    return [=](const StepTotals& totals, std::int64_t decode_context_tokens, double busy_s) {
      const FfnPoolJoules joules = model.Of(totals, decode_context_tokens);
      const MeteredWork a = WithinLimit(joules.attention, own, devices - others, busy_s);
      const MeteredWork f = WithinLimit(joules.ffn, pool, others, busy_s);
      const double limited = (devices - others) * a.limited_share + others * f.limited_share;
      return MeteredWork{a.joules + f.joules, limited / devices};
    };
  }
  const sim::DeviceWorkModel model(system.model_spec, system.hardware_spec, system.parallelism);
  return [=](const StepTotals& totals, std::int64_t decode_context_tokens, double busy_s) {
    const double joules = sim::Joules(own, model.WorkOfStep(totals, decode_context_tokens));
    return WithinLimit(joules, own, devices, busy_s);
  };
}

}  // namespace twin::run
