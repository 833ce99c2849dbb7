// The stages of a model on a device, prepared once for all runs of a process that need them.
#pragma once

#include <memory>
#include <vector>

#include "core/hardware_spec.h"
#include "core/model_spec.h"
#include "sim/cost/operations/device_profile.h"
#include "sim/cost/step_model/stage_operations.h"

namespace twin::sim {

using PreparedStages = std::vector<StageOperations>;  // in the order of the pipeline

// Equal arguments give the same object, which keeps the times that earlier runs asked for: a sweep
// computes each product once. Thread-safe; predictions do not depend on what was asked before. The
// latest 16 models stay in memory, about 2 MB each and some MB more if their steps have very many
// sizes: of a product's times and of a table's weights, 16,384 values of m are kept. A
// DeviceProfile's `steps` do not count.
std::shared_ptr<const PreparedStages> PrepareStages(const ModelSpec& model,
                                                    const HardwareSpec& hardware,
                                                    const Parallelism& parallelism,
                                                    const DeviceProfile& device,
                                                    const OperationChoices& choices);

}  // namespace twin::sim
