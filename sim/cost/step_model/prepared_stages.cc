#include "sim/cost/step_model/prepared_stages.h"

#include <algorithm>
#include <cstddef>
#include <list>
#include <mutex>

namespace twin::sim {
namespace {

constexpr std::size_t kKept = 16;

struct Entry {
  ModelSpec model;
  HardwareSpec hardware;
  Parallelism parallelism;
  OperationChoices choices;
  std::shared_ptr<const DeviceProfile> device;  // shared by entries of one device
  std::shared_ptr<const PreparedStages> stages;
};

bool SameOperations(const DeviceProfile& a, const DeviceProfile& b) {
  return a.gemm == b.gemm && a.moe == b.moe && a.attention == b.attention &&
         a.collectives == b.collectives;
}

struct Entries {
  std::mutex mutex;
  std::list<Entry> latest;  // the latest one first
};

Entries& All() {
  static Entries entries;
  return entries;
}

std::shared_ptr<const DeviceProfile> KeptDevice(const std::list<Entry>& entries,
                                                const DeviceProfile& device) {
  const auto known = std::ranges::find_if(
      entries, [&](const Entry& entry) { return SameOperations(*entry.device, device); });
  if (known != entries.end()) return known->device;
  return std::make_shared<const DeviceProfile>(device);
}

}  // namespace

std::shared_ptr<const PreparedStages> PrepareStages(const ModelSpec& model,
                                                    const HardwareSpec& hardware,
                                                    const Parallelism& parallelism,
                                                    const DeviceProfile& device,
                                                    const OperationChoices& choices) {
  Entries& all = All();
  const std::lock_guard lock(all.mutex);
  std::list<Entry>& latest = all.latest;
  const auto known = std::ranges::find_if(latest, [&](const Entry& entry) {
    return entry.model == model && entry.hardware == hardware && entry.parallelism == parallelism &&
           entry.choices == choices && SameOperations(*entry.device, device);
  });
  if (known != latest.end()) {
    latest.splice(latest.begin(), latest, known);
    return latest.front().stages;
  }
  PreparedStages stages;
  stages.reserve(static_cast<std::size_t>(parallelism.pipeline));
  for (std::int32_t stage = 0; stage < parallelism.pipeline; ++stage) {
    stages.emplace_back(model, hardware, parallelism, stage, device, choices);
  }
  latest.push_front({model, hardware, parallelism, choices, KeptDevice(latest, device),
                     std::make_shared<const PreparedStages>(std::move(stages))});
  if (latest.size() > kKept) latest.pop_back();
  return latest.front().stages;
}

}  // namespace twin::sim
