// The stages of models on devices, prepared once for all cost models that need them.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "core/hardware_spec.h"
#include "core/model_spec.h"
#include "sim/devices/operations/device_profile.h"
#include "sim/devices/stage_operations.h"

namespace twin::sim {

using PreparedStages = std::vector<StageOperations>;  // in the order of the pipeline

// Keeps prepared stages for runs that differ in other things. Equal arguments give the same object,
// which keeps the times that earlier runs asked for: a sweep computes each product once.
// Thread-safe; predictions do not depend on what was asked before. The latest kModels stay in
// memory, about 2 MB each and some MB more if their steps have very many sizes: of a product's
// times and of a table's weights, 16,384 values of m are kept. A DeviceProfile's `steps` do not
// count.
class StageCache {
 public:
  static constexpr std::size_t kModels = 16;

  // Throws InputError (usage) if the split is invalid.
  std::shared_ptr<const PreparedStages> Prepare(const ModelSpec& model,
                                                const HardwareSpec& hardware,
                                                const Parallelism& parallelism,
                                                const DeviceProfile& device,
                                                const OperationChoices& choices);

 private:
  struct Entry {
    ModelSpec model;
    HardwareSpec hardware;
    Parallelism parallelism;
    OperationChoices choices;
    std::shared_ptr<const DeviceProfile> device;  // shared by entries of one device
    std::shared_ptr<const PreparedStages> stages;
  };

  [[nodiscard]] std::shared_ptr<const DeviceProfile> KeptDevice(const DeviceProfile& device) const;

  std::mutex mutex_;
  std::list<Entry> latest_;  // the latest one first
};

}  // namespace twin::sim
