// Capacity, cost, energy and price of replicas whose feed-forward networks have devices of their
// own (sim/cost/ffn_pool_config.h), and of all others.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "config/experiment_config.h"
#include "core/energy_spec.h"
#include "run/cost_cache.h"
#include "run/record/energy_meter.h"
#include "sched/step_plan.h"
#include "sim/cost/cost_config.h"
#include "sim/cost/step_cost.h"
#include "sim/devices/kv_capacity.h"

namespace twin::run {

// As sim::PlanKvCapacity(). With an FFN pool: the attention groups hold attention's weights alone,
// and the blocks are those of all groups; memory.blocks_override counts them all. Throws InputError
// (usage) as that, or if the pool cannot be divided or its weights do not fit.
sim::KvCapacity PlanCapacity(const SystemConfig& system, const ModelSpec* draft);

// Resolves the cost model of the FFN pool. `asked`: the replica's before it was resolved.
// `context`: of the pool's device. REQUIRES: system.ffn.
void ResolveFfnPoolCost(const sim::CostConfig& asked, const sim::CostContext& context,
                        SystemConfig& system);

// The cost model of a replica. REQUIRES: `cost` and the pool's cost model are resolved.
std::shared_ptr<const sim::StepCost> CostOfReplica(const SystemConfig& system,
                                                   const sim::CostConfig& cost,
                                                   std::int64_t kv_block_bytes, CostCache& cache);

// Energy and price of the mean device of a replica; nullopt unless it is known of all its devices.
std::optional<EnergySpec> EnergyOf(const SystemConfig& system);
std::optional<PriceSpec> PriceOf(const SystemConfig& system);

// The work of steps on a replica (MeteredDevices::work), each kind of device within its own limit.
// REQUIRES: EnergyOf(system).
std::function<MeteredWork(const StepTotals&, std::int64_t, double)> WorkOf(
    const SystemConfig& system);

}  // namespace twin::run
