// Servers by name and version: how each starts unasked.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/hardware_spec.h"
#include "core/model_spec.h"
#include "sim/boundary_config.h"

namespace twin::proto {
class Experiment;
}  // namespace twin::proto

namespace twin {

struct ServerPreset {
  std::string_view name;  // of system.server
  std::string_view policy;
  std::string_view source;  // where its defaults come from
};

std::span<const ServerPreset> ServerPresets();

// The boundary that a server fills in, and the standard deviation of the logarithm of its delays:
// small for recorded versions, larger for others.
struct ServerBoundary {
  sim::BoundaryConfig config;
  double log_sd = 0;
};

// With an engine on `ranks` devices. REQUIRES: the name of one of ServerPresets().
ServerBoundary BoundaryOfServer(std::string_view server, std::int32_t ranks);

// Sets what `message` leaves open to the values with which system.server starts on this device: the
// policy and its limits, the share of memory, the boundary, and, with the cost model `profile` or
// none, the engine and the captured graphs of that model. Fields that are set stay, and so do a
// policy and a cost model of another kind. Sources: ServerPreset::source; boundaries of vLLM are
// those of recorded runs of 0.15.1 and 0.23.0, and the nearest of these for other versions. Host
// and boundary of servers other than vLLM were never measured: theirs are estimates. REQUIRES:
// system.server is set. Throws InputError (usage) for an unknown server, and for one whose policy
// is missing, with the reason.
void FillServerDefaults(const ModelSpec& model, const HardwareSpec& hardware,
                        const Parallelism& parallelism, proto::Experiment& message);

}  // namespace twin
