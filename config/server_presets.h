// Servers by name and version: how each starts unasked.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "config/models/served_positions.h"
#include "config/server_name.h"
#include "core/hardware_spec.h"
#include "core/model_spec.h"
#include "sim/cost/boundary_config.h"

namespace twin::proto {
class Experiment;
}  // namespace twin::proto

namespace twin {

struct ServerPreset {
  std::string_view name;  // of system.server
  std::string_view policy;
  std::string_view source;  // where its defaults come from
  ServerVersion since{};    // the first version that starts like this one, as far as is known
};

std::span<const ServerPreset> ServerPresets();

struct ListedServer {
  const ServerPreset* preset;
  bool exact;             // the version that was asked for, not one that stands in for it
  ServerVersion version;  // that was asked for
};

// The preset that `name` means in any spelling (server_name.h), or that stands in for its version:
// the newest that starts like it or like one before it. Nothing for a family, version or spelling
// that none stands for.
std::optional<ListedServer> FindServer(std::string_view name);

// The release of vLLM V1 by whose rules a server decides here, and whether its own decisions were
// compared with them; else they may be those of another release.
struct ServerDecisions {
  std::string_view release;
  bool compared = false;
};

// `name` may have any spelling. Nothing for servers that FindServer does not know, and for those of
// other policies, whose presets say in `source` what they reproduce.
std::optional<ServerDecisions> DecisionsOfServer(std::string_view name);

// The boundary that a server fills in, and the standard deviation of the logarithm of its delays:
// small for recorded versions, larger for others.
struct ServerBoundary {
  sim::BoundaryConfig config;
  double log_sd = 0;
};

// With an engine on `ranks` devices; `exact` as in ListedServer. REQUIRES: the name of one of
// ServerPresets().
ServerBoundary BoundaryOfServer(std::string_view server, bool exact, std::int32_t ranks);

// How the system of `message` derives positions from config.json: by its policy, else by that of
// its server, and by the server's version. Systems whose code nobody read take vLLM's rule.
PositionRule PositionRuleOf(const proto::Experiment& message);

// Sets what `message` leaves open to the values with which system.server starts on this device: the
// policy and its limits, the share of memory, the boundary, and, with the cost model `profile` or
// none, the engine and the captured graphs of that model. Fields that are set stay, and so do a
// policy and a cost model of another kind. Sources: ServerPreset::source; boundaries of vLLM are
// those of recorded runs of 0.15.1 and 0.23.0, and the nearest of these for other versions. Host
// and boundary of servers other than vLLM were never measured: theirs are estimates. Sets
// system.server to the preset's name and, where that stands in for another version,
// system.server_asked. REQUIRES: system.server is set. Throws InputError (usage) for an unknown
// server, a version before the first listed one, and a server whose policy is missing.
void FillServerDefaults(const ModelSpec& model, const HardwareSpec& hardware,
                        const Parallelism& parallelism, proto::Experiment& message);

}  // namespace twin
