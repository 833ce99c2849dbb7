#include "run/cost_cache.h"

#include "config/profile_file.h"

namespace twin::run {

std::shared_ptr<const sim::DeviceProfile> CostCache::Profile(const std::string& name) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const sim::DeviceProfile>& profile = profiles_[name];
  if (profile == nullptr) {
    profile = std::make_shared<const sim::DeviceProfile>(
        name.find('/') != std::string::npos ? ReadProfileFolder(name) : ProfilePreset(name));
  }
  return profile;
}

std::shared_ptr<const sim::StepCost> CostCache::Cost(const sim::CostConfig& config,
                                                     const ModelSpec& model,
                                                     const HardwareSpec& hardware,
                                                     const Parallelism& parallelism,
                                                     std::int64_t kv_block_bytes) {
  const std::lock_guard lock(mutex_);
  for (const Made& made : made_) {
    if (made.kv_block_bytes == kv_block_bytes && made.config == config && made.model == model &&
        made.hardware == hardware && made.parallelism == parallelism) {
      return made.cost;
    }
  }
  std::shared_ptr<const sim::StepCost> cost =
      sim::MakeStepCost(config, model, hardware, parallelism, kv_block_bytes);
  made_.push_front({config, model, hardware, parallelism, kv_block_bytes, cost});
  if (made_.size() > kModels) made_.pop_back();
  return cost;
}

}  // namespace twin::run
