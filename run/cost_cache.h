// Cache of profiles and prepared models that the cost models of deployments share.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/hardware_spec.h"
#include "core/model_spec.h"
#include "sim/cost/cost_config.h"
#include "sim/cost/step_cost.h"

namespace twin::run {

// Reads each profile and prepares each model on a device once for deployments that differ in other
// things, such as the points of a study: the first takes milliseconds, the second a tenth of a
// second. Thread-safe. Memory: profiles as long as it lives, and models as sim::StageCache.
class CostCache {
 public:
  CostCache();
  ~CostCache();
  CostCache(const CostCache&) = delete;
  CostCache& operator=(const CostCache&) = delete;

  // The profile of a device: a folder (with a '/'), or the name of a preset. Throws InputError.
  std::shared_ptr<const sim::DeviceProfile> Profile(const std::string& name);
  // Profiles are read again, as their files may have changed.
  void ForgetProfiles();

  // As sim::MakeStepCost.
  std::shared_ptr<const sim::StepCost> Cost(const sim::CostConfig& config, const ModelSpec& model,
                                            const HardwareSpec& hardware,
                                            const Parallelism& parallelism,
                                            std::int64_t kv_block_bytes);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const sim::DeviceProfile>> profiles_;  // under mutex_
  const std::unique_ptr<sim::StageCache> stages_;
};

}  // namespace twin::run
