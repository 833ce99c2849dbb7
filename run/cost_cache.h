// Cost models that deployments share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/hardware_spec.h"
#include "core/model_spec.h"
#include "sim/cost/registry.h"
#include "sim/cost/step_cost.h"

namespace twin::run {

// Makes each cost model once for deployments that differ in other things, such as the points of a
// study. Reading a profile takes milliseconds, and a cost model remembers what it has computed.
// Thread-safe. Memory: profiles as long as it lives, and the latest kModels cost models.
class CostCache {
 public:
  static constexpr std::size_t kModels = 16;

  // The profile of a device: a folder (with a '/'), or the name of a preset. Throws InputError.
  std::shared_ptr<const sim::DeviceProfile> Profile(const std::string& name);

  // As sim::MakeStepCost.
  std::shared_ptr<const sim::StepCost> Cost(const sim::CostConfig& config, const ModelSpec& model,
                                            const HardwareSpec& hardware,
                                            const Parallelism& parallelism,
                                            std::int64_t kv_block_bytes);

 private:
  struct Made {
    sim::CostConfig config;
    ModelSpec model;
    HardwareSpec hardware;
    Parallelism parallelism;
    std::int64_t kv_block_bytes = 0;
    std::shared_ptr<const sim::StepCost> cost;
  };

  std::mutex mutex_;  // guards both
  std::map<std::string, std::shared_ptr<const sim::DeviceProfile>> profiles_;
  std::deque<Made> made_;  // the latest first
};

}  // namespace twin::run
