// From the fields of an experiment to its config: defaults are filled in, and all is validated.
#pragma once

#include <memory>
#include <string>

#include "config/experiment_config.h"
#include "core/hardware_spec.h"
#include "core/input_error.h"

namespace twin {

namespace proto {
class Experiment;
class Hardware;
}  // namespace proto

// The config of the fields of `asked`; errors name `source`. An experiment that is new, and not
// that of a recorded run, may not allow longer requests than its model, and its policy.own is
// loaded. `own_policy`: the policy of a caller, which decides; may be null. Throws InputError.
ExperimentConfig ConfigOf(const proto::Experiment& asked, const std::string& source, bool is_new,
                          std::shared_ptr<const OwnPolicy> own_policy);

// The device that system.hardware names; without numbers for an empty name. Throws InputError.
HardwareSpec NamedHardware(const std::string& hardware);

// All numbers of a device as fields.
proto::Hardware MessageOf(HardwareSpec device);

// Runs `read`, and puts `source` before the text of its InputErrors.
template <class Read>
void ReadFrom(const std::string& source, Read read) {
  try {
    read();
  } catch (const InputError& error) {
    const bool usage = error.exit_code() == static_cast<int>(InputError::Kind::kUsage);
    throw InputError(usage ? InputError::Kind::kUsage : InputError::Kind::kData, source,
                     error.what());
  }
}

}  // namespace twin
