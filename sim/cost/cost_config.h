// A cost model with its settings, whichever it is; registry.h lists the cost models.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/any_config.h"
#include "core/hardware_spec.h"
#include "core/model_spec.h"
#include "sim/cost/cost_traits.h"
#include "sim/cost/step_cost.h"

namespace twin {
struct PolicyTraits;
}  // namespace twin

namespace twin::sim {

class StageCache;
struct BoundaryProfile;
struct DeviceProfile;

struct CostFamily {
  template <class Config>
  static constexpr bool kMember = requires {
    Config::kCostTraits;
  };
  // The settings of the first cost model of the registry.
  static AnyConfig<CostFamily> Default();
};

// The settings of one cost model.
using CostConfig = AnyConfig<CostFamily>;

// In the order of the registry: each cost model with its defaults.
std::vector<CostConfig> DefaultCostConfigs();

CostTraits TraitsOf(const CostConfig& config);

// The parts of an experiment that a cost model depends on.
struct CostContext {
  const PolicyTraits& policy;
  const HardwareSpec& hardware;
  // Reads the profile of a device: a data sheet's name, or a folder. Throws InputError.
  std::function<std::shared_ptr<const DeviceProfile>(const std::string& name)> read_profile;
};

// Fills in the settings that are left to the policy and the device. Throws what read_profile
// throws.
void Resolve(CostConfig& config, const CostContext& context);

// Chooses draw number `draw` of the errors of a measured model; no other model has errors. 0: the
// median prediction.
void SetDraw(CostConfig& config, std::uint64_t draw);
std::uint64_t DrawOf(const CostConfig& config);

// The measured delays between client and engine; null if the model has no profile. Lives as long
// as `config`. REQUIRES: `config` is resolved.
const BoundaryProfile* MeasuredBoundary(const CostConfig& config);

// Which times are estimates although the model is measured, as a warning; empty: none are.
std::string EstimatedPartsWarning(const CostConfig& config);

// `kv_block_bytes` is one rank's. `stages` keeps what models of the same system share; null:
// nothing is shared. Throws InputError (usage) if the configuration, a spec or the split is
// invalid.
std::unique_ptr<StepCost> MakeStepCost(const CostConfig& config, const ModelSpec& model,
                                       const HardwareSpec& hardware, const Parallelism& parallelism,
                                       std::int64_t kv_block_bytes, StageCache* stages = nullptr);

}  // namespace twin::sim
