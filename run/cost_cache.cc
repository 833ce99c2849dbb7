#include "run/cost_cache.h"

#include "config/profile_folder.h"
#include "sim/devices/operations/device_profile.h"
#include "sim/devices/stage_cache.h"

namespace twin::run {

CostCache::CostCache() : stages_(std::make_unique<sim::StageCache>()) {}
CostCache::~CostCache() = default;

std::shared_ptr<const sim::DeviceProfile> CostCache::Profile(const std::string& name) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const sim::DeviceProfile>& profile = profiles_[name];
  if (profile == nullptr) {
    profile = std::make_shared<const sim::DeviceProfile>(
        name.find('/') != std::string::npos ? ReadProfileFolder(name) : ProfilePreset(name));
  }
  return profile;
}

void CostCache::ForgetProfiles() {
  const std::lock_guard lock(mutex_);
  profiles_.clear();
}

std::shared_ptr<const sim::StepCost> CostCache::Cost(const sim::CostConfig& config,
                                                     const ModelSpec& model,
                                                     const HardwareSpec& hardware,
                                                     const Parallelism& parallelism,
                                                     std::int64_t kv_block_bytes) {
  return sim::MakeStepCost(config, model, hardware, parallelism, kv_block_bytes, stages_.get());
}

}  // namespace twin::run
