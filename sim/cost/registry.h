// All cost models, by configuration.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>

#include "core/hardware_spec.h"
#include "core/model_spec.h"
#include "sim/cost/constant_cost.h"
#include "sim/cost/fitted_config.h"
#include "sim/cost/linear_cost.h"
#include "sim/cost/roofline_config.h"
#include "sim/cost/step_cost.h"
#include "sim/devices/profile_config.h"
#include "sim/devices/stage_cache.h"

namespace twin::sim {

using CostConfig = std::variant<ConstantCostConfig, LinearCostConfig, RooflineCostConfig,
                                FittedCostConfig, ProfileCostConfig>;

// `kv_block_bytes` is one rank's. `stages` keeps what models of the same system share; null:
// nothing is shared. Throws InputError (usage) if the configuration, a spec or the split is
// invalid.
std::unique_ptr<StepCost> MakeStepCost(const CostConfig& config, const ModelSpec& model,
                                       const HardwareSpec& hardware, const Parallelism& parallelism,
                                       std::int64_t kv_block_bytes, StageCache* stages = nullptr);

}  // namespace twin::sim
