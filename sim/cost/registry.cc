#include "sim/cost/registry.h"

#include <fmt/format.h>

#include "core/input_error.h"
#include "sim/cost/dataflow_cost.h"
#include "sim/cost/fitted_cost.h"
#include "sim/cost/roofline_cost.h"
#include "sim/devices/profile_cost.h"

namespace twin::sim {
namespace {

struct Maker {
  const ModelSpec& model;
  const HardwareSpec& hardware;
  const Parallelism& parallelism;
  std::int64_t kv_block_bytes;
  StageCache* stages;

  std::unique_ptr<StepCost> operator()(const ConstantCostConfig& config) const {
    return std::make_unique<ConstantCost>(config, parallelism.pipeline);
  }
  std::unique_ptr<StepCost> operator()(const LinearCostConfig& config) const {
    return std::make_unique<LinearCost>(config, parallelism.pipeline);
  }
  std::unique_ptr<StepCost> operator()(const RooflineCostConfig& config) const {
    return std::make_unique<RooflineCost>(config, model, hardware, parallelism, kv_block_bytes);
  }
  std::unique_ptr<StepCost> operator()(const FittedCostConfig& config) const {
    return std::make_unique<FittedCost>(config, model, parallelism);
  }
  std::unique_ptr<StepCost> operator()(const ProfileCostConfig& config) const {
    return std::make_unique<ProfileCost>(config, model, hardware, parallelism, kv_block_bytes,
                                         stages);
  }
  std::unique_ptr<StepCost> operator()(const DataflowCostConfig& /*config*/) const {
    return std::make_unique<DataflowCost>(model, hardware, parallelism, kv_block_bytes);
  }
};

// Returns visit(settings) of the settings that `config`, a CostConfig, holds.
template <class... Configs, class Any, class Visit>
auto VisitCost(CostRegistry<Configs...> /*registry*/, Any& config, Visit&& visit) {
  return VisitConfig<Configs...>(config, visit);
}
template <class Any, class Visit>
auto VisitCost(Any& config, Visit&& visit) {
  return VisitCost(Costs{}, config, visit);
}

}  // namespace

CostConfig CostFamily::Default() { return DefaultCostConfigs().front(); }

std::vector<CostConfig> DefaultCostConfigs() {
  std::vector<CostConfig> configs;
  ForEachCost([&](const auto& config) { configs.emplace_back(config); });
  return configs;
}

CostTraits TraitsOf(const CostConfig& config) {
  return VisitCost(config, [](const auto& held) { return held.kCostTraits; });
}

void Resolve(CostConfig& config, const CostContext& context) {
  VisitCost(config, [&](auto& held) {
    if constexpr (requires { held.Resolve(context); }) held.Resolve(context);
  });
}

void SetDraw(CostConfig& config, std::uint64_t draw) {
  VisitCost(config, [draw](auto& held) {
    if constexpr (requires { held.draw_seed; }) held.draw_seed = draw;
  });
}

std::uint64_t DrawOf(const CostConfig& config) {
  return VisitCost(config, [](const auto& held) -> std::uint64_t {
    if constexpr (requires { held.draw_seed; }) return held.draw_seed;
    return 0;
  });
}

const BoundaryProfile* MeasuredBoundary(const CostConfig& config) {
  return VisitCost(config, [](const auto& held) -> const BoundaryProfile* {
    if constexpr (requires { held.boundary(); }) return held.boundary();
    return nullptr;
  });
}

std::string EstimatedPartsWarning(const CostConfig& config) {
  return VisitCost(config, [](const auto& held) -> std::string {
    if constexpr (requires { held.EstimatedPartsWarning(); }) return held.EstimatedPartsWarning();
    return "";
  });
}

std::unique_ptr<StepCost> MakeStepCost(const CostConfig& config, const ModelSpec& model,
                                       const HardwareSpec& hardware, const Parallelism& parallelism,
                                       std::int64_t kv_block_bytes, StageCache* stages) {
  Validate(model, parallelism);
  const CostTraits traits = TraitsOf(config);
  if (hardware.dataflow && !traits.takes_any_split) {
    throw InputError(InputError::Kind::kUsage, fmt::format("cost.{}", traits.name),
                     fmt::format("does not know dataflow machines, such as {}; allowed: dataflow, "
                                 "linear, constant",
                                 hardware.name));
  }
  if (!parallelism.is_uniform() && !traits.takes_any_split) {
    throw InputError(InputError::Kind::kUsage, fmt::format("cost.{}", traits.name),
                     "knows equal stages whose devices form a ring and divide heads; allowed with "
                     "other link_topology, kv_split or stages: dataflow, linear, constant");
  }
  return VisitCost(config, Maker{model, hardware, parallelism, kv_block_bytes, stages});
}

}  // namespace twin::sim
