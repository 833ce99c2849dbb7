#include "sim/cost/registry.h"

#include "core/check.h"
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
};

// Calls visit(settings) with the settings that `config`, a CostConfig, holds.
template <class Any, class Visit>
void VisitCost(Any& config, Visit visit) {
  bool known = false;
  ForEachCost([&]<class Config>(const Config& /*default*/) {
    if (auto* const held = config.template If<Config>()) {
      visit(*held);
      known = true;
    }
  });
  CHECK(known);
}

}  // namespace

CostConfig CostFamily::Default() { return DefaultCostConfigs().front(); }

std::vector<CostConfig> DefaultCostConfigs() {
  std::vector<CostConfig> configs;
  ForEachCost([&](const auto& config) { configs.emplace_back(config); });
  return configs;
}

CostTraits TraitsOf(const CostConfig& config) {
  CostTraits traits;
  VisitCost(config, [&](const auto& held) { traits = held.kCostTraits; });
  return traits;
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
  std::uint64_t draw = 0;
  VisitCost(config, [&draw](const auto& held) {
    if constexpr (requires { held.draw_seed; }) draw = held.draw_seed;
  });
  return draw;
}

const BoundaryProfile* MeasuredBoundary(const CostConfig& config) {
  const BoundaryProfile* boundary = nullptr;
  VisitCost(config, [&boundary](const auto& held) {
    if constexpr (requires { held.boundary(); }) boundary = held.boundary();
  });
  return boundary;
}

std::string EstimatedPartsWarning(const CostConfig& config) {
  std::string warning;
  VisitCost(config, [&warning](const auto& held) {
    if constexpr (requires { held.EstimatedPartsWarning(); }) {
      warning = held.EstimatedPartsWarning();
    }
  });
  return warning;
}

std::unique_ptr<StepCost> MakeStepCost(const CostConfig& config, const ModelSpec& model,
                                       const HardwareSpec& hardware, const Parallelism& parallelism,
                                       std::int64_t kv_block_bytes, StageCache* stages) {
  Validate(model, parallelism);
  std::unique_ptr<StepCost> cost;
  VisitCost(config, [&](const auto& held) {
    cost = Maker{model, hardware, parallelism, kv_block_bytes, stages}(held);
  });
  CHECK(cost != nullptr);
  return cost;
}

}  // namespace twin::sim
