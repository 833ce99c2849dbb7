#include "sim/cost/registry.h"

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

}  // namespace

std::unique_ptr<StepCost> MakeStepCost(const CostConfig& config, const ModelSpec& model,
                                       const HardwareSpec& hardware, const Parallelism& parallelism,
                                       std::int64_t kv_block_bytes, StageCache* stages) {
  Validate(model, parallelism);
  return std::visit(Maker{model, hardware, parallelism, kv_block_bytes, stages}, config);
}

}  // namespace twin::sim
