// Default settings of servers, by name and version.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/servers/server.h"
#include "config/servers/settings.h"
#include "core/hardware_spec.h"
#include "core/model_spec.h"
#include "sim/cost/boundary_config.h"

namespace twin::proto {
class Experiment;
}  // namespace twin::proto

namespace twin {

// The listed releases, by server, oldest first.
std::vector<ServerPreset> ServerPresets();

struct ListedServer {
  const Server* server;
  const ServerPreset* preset;
  bool exact;             // false: the preset stands in for the version that was asked for
  ServerVersion version;  // the version that was asked for
};

// The preset that `name` means in any spelling (server_name.h), or that stands in for its version:
// the newest preset of no newer version. nullopt if no preset fits the family and version, or if
// the name is not understood.
std::optional<ListedServer> FindServer(std::string_view name);

// All servers.
std::span<const Server* const> Servers();

// Says in one line why FindServer(name) is nullopt: an unknown server with the nearest names, a
// name without a version, or a version before the first listed one. REQUIRES: it is.
std::string WhyNoServer(const std::string& name);

// The newest listed release of the server that `name` means, which has no version; nullopt for any
// other name.
std::optional<std::string_view> NewestOfServer(std::string_view name);

// The policy of a listed server; empty for other names.
std::string_view FindServerPolicy(std::string_view server);

// The field that a setting sets with the policy of a server, as --set names it; empty for policies
// of no server, and if the server has no such setting.
std::string FieldOfPolicy(std::string_view policy, Setting setting);

// The field that a setting sets with the policy of a listed server; empty for other names.
std::string FieldOfServer(std::string_view server, Setting setting);

// The release of vLLM V1 by whose rules a server decides here. `compared`: the decisions of the
// asked version were compared with these rules; otherwise they may differ.
struct ServerDecisions {
  std::string_view release;
  bool compared = false;
};

// `name` may have any spelling. nullopt for servers that FindServer does not know, and for servers
// with other policies, whose presets say in `source` what they reproduce.
std::optional<ServerDecisions> DecisionsOfServer(std::string_view name);

// The boundary that a server fills in, and the standard deviation of the logarithm of its delays:
// small for versions that were recorded, larger for all other versions.
struct ServerBoundary {
  sim::BoundaryConfig config;
  double log_sd = 0;
};

// The boundary of a server with an engine on `ranks` devices; `exact` as in ListedServer.
// REQUIRES: `server` is the name of one of ServerPresets().
ServerBoundary BoundaryOfServer(std::string_view server, bool exact, std::int32_t ranks);

// Rule by which the system of `message` derives positions from config.json. Depends on its policy,
// else on its server's policy, and on the server's version. Other systems take vLLM's rule.
PositionRule PositionRuleOf(const proto::Experiment& message);

// Sets the fields that `message` leaves unset to the values with which system.server starts on this
// device: the policy and its limits, the share of memory, the boundary, and, with the cost model
// `profile` or none, the engine and the captured graphs of that model. Fields that are set stay, as
// do a policy and a cost model of another kind.
// Sources: ServerPreset::source. Boundaries of vLLM come from recorded runs of 0.15.1 and 0.23.0;
// another version takes the nearer of the two. Host times and boundaries of all other servers are
// estimates, never measured.
// Sets system.server to the preset's name and, if the preset stands in for another version,
// system.server_asked. REQUIRES: system.server is set. Throws InputError (usage) for an unknown
// server and for a version before the first listed one.
void FillServerDefaults(const ModelSpec& model, const HardwareSpec& hardware,
                        const Parallelism& parallelism, proto::Experiment& message);

}  // namespace twin
