#include "sim/devices/stage_cache.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace twin::sim {
namespace {

bool SameOperations(const DeviceProfile& a, const DeviceProfile& b) {
  return a.gemm == b.gemm && a.moe == b.moe && a.attention == b.attention &&
         a.collectives == b.collectives && a.operations == b.operations;
}

}  // namespace

std::shared_ptr<const DeviceProfile> StageCache::KeptDevice(const DeviceProfile& device) const {
  const auto known = std::ranges::find_if(
      latest_, [&](const Entry& entry) { return SameOperations(*entry.device, device); });
  if (known != latest_.end()) return known->device;
  return std::make_shared<const DeviceProfile>(device);
}

std::shared_ptr<const PreparedStages> StageCache::Prepare(const ModelSpec& model,
                                                          const HardwareSpec& hardware,
                                                          const Parallelism& parallelism,
                                                          const DeviceProfile& device,
                                                          const OperationChoices& choices) {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find_if(latest_, [&](const Entry& entry) {
    return entry.model == model && entry.hardware == hardware && entry.parallelism == parallelism &&
           entry.choices == choices && SameOperations(*entry.device, device);
  });
  if (known != latest_.end()) {
    latest_.splice(latest_.begin(), latest_, known);
    return latest_.front().stages;
  }
  PreparedStages stages;
  stages.reserve(static_cast<std::size_t>(parallelism.pipeline));
  for (std::int32_t stage = 0; stage < parallelism.pipeline; ++stage) {
    stages.emplace_back(model, hardware, parallelism, stage, device, choices);
  }
  latest_.push_front({model, hardware, parallelism, choices, KeptDevice(device),
                      std::make_shared<const PreparedStages>(std::move(stages))});
  if (latest_.size() > kModels) latest_.pop_back();
  return latest_.front().stages;
}

}  // namespace twin::sim
