#include "config/ffn_hardware.h"

#include "config/experiment.bind.h"
#include "config/experiment.pb.h"
#include "config/hardware_file.h"
#include "config/overlay.h"
#include "core/input_error.h"

namespace twin {

proto::Hardware MessageOf(HardwareSpec device) {
  proto::Hardware message;
  ToMessage fields(message);
  Bind(fields, device);
  return message;
}

void FillFfnHardware(HardwareSpec named, proto::System& system) {
  if (!system.has_ffn()) return;
  proto::Ffn& ffn = *system.mutable_ffn();
  if (ffn.hardware().empty()) {
    FromMessage fields(system.hardware_spec());
    Bind(fields, named);
  } else {
    named = HardwareFromNameOrFile(ffn.hardware());
  }
  proto::Hardware device = MessageOf(named);
  Overlay(ffn.hardware_spec(), device, "none");
  *ffn.mutable_hardware_spec() = device;
}

void ValidateFfn(const ExperimentConfig& config) {
  if (!config.system.ffn) return;
  Validate(config.system.ffn->hardware_spec);
  if (!IsReal(config.world)) return;
  throw InputError(InputError::Kind::kUsage, "system.ffn",
                   "is of simulated worlds; allowed in a real world: none");
}

}  // namespace twin
