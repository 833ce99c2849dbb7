// The device of a pool that computes feed-forward networks (Ffn in system.proto).
#pragma once

#include "config/experiment_config.h"
#include "core/hardware_spec.h"

namespace twin {

namespace proto {
class Hardware;
class System;
}  // namespace proto

proto::Hardware MessageOf(HardwareSpec device);

// Enters the whole device of the pool into the message: the one that the pool names, or that of the
// system, under the numbers that the pool sets. `named`: the device that system.hardware names.
// Throws InputError if the pool names no device.
void FillFfnHardware(HardwareSpec named, proto::System& system);

// Throws InputError (usage) if the pool's device is invalid, or the world is real.
void ValidateFfn(const ExperimentConfig& config);

}  // namespace twin
