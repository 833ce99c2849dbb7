#include "config/servers/servers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "config/engine_settings.h"
#include "config/experiment.bind.h"
#include "config/experiment.pb.h"
#include "config/overlay.h"
#include "core/check.h"
#include "core/input_error.h"
#include "core/nearest_names.h"
#include "sim/devices/boundary_profile.h"

namespace twin {
namespace {

constexpr std::array kServers = {&kVllmServer, &kSglangServer, &kTgiServer, &kTrtllmServer};

// Four recorded runs on more ranks have 7.5 to 10.4 ms.
constexpr double kMoreRanksSeconds = 8.5e-3;
// Standard deviations of the logarithms of recorded boundaries.
constexpr double kOneRankLogSd = 0.1;
constexpr double kMoreRanksLogSd = 0.15;

const Server* FindFamily(std::string_view family) {
  const auto* const found =
      std::ranges::find(kServers, family, [](const Server* server) { return server->family; });
  return found == kServers.end() ? nullptr : *found;
}

std::vector<std::string_view> PresetNames() {
  std::vector<std::string_view> names;
  for (const ServerPreset& preset : ServerPresets()) names.push_back(preset.name);
  return names;
}

[[noreturn]] void Refuse(const std::string& server) {
  throw InputError(
      InputError::Kind::kUsage, "system.server",
      fmt::format("{}; allowed: {}", WhyNoServer(server), fmt::join(PresetNames(), ", ")));
}

void FillBoundary(const ListedServer& server, const Parallelism& parallelism,
                  proto::Boundary& boundary) {
  sim::BoundaryConfig config =
      BoundaryOfServer(server.preset->name, server.exact, parallelism.devices()).config;
  ToMessage fields(boundary);
  Bind(fields, config);
}

// A resolved config that is read again names the preset and the version that it stands in for.
void KeepAsked(const std::string& asked, const ListedServer& found, proto::System& system) {
  system.set_server(std::string(found.preset->name));
  if (!found.exact) {
    system.set_server_asked(asked);
  } else if (const auto earlier = FindServer(system.server_asked());
             !earlier || earlier->preset != found.preset) {
    system.clear_server_asked();
  }
}

bool TakesProfile(const proto::Cost& cost) {
  return cost.kind_case() == proto::Cost::KIND_NOT_SET || cost.has_profile();
}

void FillLibrary(const Server& server, proto::Cost& cost) {
  if (server.library.empty() || cost.profile().has_library()) return;
  proto::KernelLibrary::Name library{};
  CHECK(proto::KernelLibrary::Name_Parse(std::string(server.library), &library));
  cost.mutable_profile()->set_library(library);
}

// Sets how the host prepares steps and the sizes of captured graphs, which follow from the policy.
void FillStepPreparation(const ServerMachine& machine, const proto::Policy& policy,
                         proto::Cost& cost) {
  std::optional<StepPreparation> preparation;
  for (const Server* const server : kServers) {
    if (!preparation) preparation = server->find_step_preparation(machine, policy);
  }
  if (!preparation) return;
  proto::ProfileCost& profile = *cost.mutable_profile();
  if (!profile.has_engine()) {
    proto::ProfileCost::Engine engine{};
    CHECK(proto::ProfileCost::Engine_Parse(std::string(preparation->engine), &engine));
    profile.set_engine(engine);
  }
  if (!profile.has_captured_size_max()) profile.set_captured_size_max(preparation->captured);
  if (!preparation->hidden) return;
  if (!profile.has_host_s()) profile.set_host_s(0);
  if (!profile.has_host_per_item_s()) profile.set_host_per_item_s(0);
}

}  // namespace

void FillLayers(const LayerDefaults& layers, proto::System& defaults) {
  if (layers.block_size > 0) defaults.mutable_memory()->set_block_size(layers.block_size);
  if (layers.format == KeptFormat::kFp8) {
    defaults.mutable_model_shape()->set_kv_dtype(proto::ModelShape::fp8);
  }
}

std::vector<ServerPreset> ServerPresets() {
  std::vector<ServerPreset> presets;
  for (const Server* const server : kServers) {
    presets.insert(presets.end(), server->presets.begin(), server->presets.end());
  }
  return presets;
}

std::span<const Server* const> Servers() { return kServers; }

std::string WhyNoServer(const std::string& name) {
  const std::optional<ServerName> asked = ParseServerName(name);
  const Server* const family = asked ? FindFamily(asked->family) : nullptr;
  if (family == nullptr) {
    return fmt::format("unknown server '{}'; nearest: {}", name, NearestNames(name, PresetNames()));
  }
  if (!asked->version) return fmt::format("\"{}\" names no version", name);
  return fmt::format("\"{}\" is older than {}, the oldest that is known", name,
                     family->presets.front().name);
}

std::optional<std::string_view> NewestOfServer(std::string_view name) {
  const std::optional<ServerName> asked = ParseServerName(name);
  if (!asked || asked->version) return std::nullopt;
  const Server* const server = FindFamily(asked->family);
  if (server == nullptr) return std::nullopt;
  return server->presets.back().name;
}

std::optional<ListedServer> FindServer(std::string_view name) {
  const std::optional<ServerName> asked = ParseServerName(name);
  if (!asked || !asked->version) return std::nullopt;
  const Server* const server = FindFamily(asked->family);
  if (server == nullptr) return std::nullopt;
  std::optional<ListedServer> found;
  for (const ServerPreset& preset : server->presets) {
    if (preset.since > *asked->version) continue;
    const bool same = ParseServerName(preset.name)->version == asked->version;
    found = ListedServer{server, &preset, same && asked->released, *asked->version};
  }
  return found;
}

std::string_view FindServerPolicy(std::string_view server) {
  const std::optional<ListedServer> listed = FindServer(server);
  return listed ? listed->preset->policy : std::string_view();
}

std::string FieldOfPolicy(std::string_view policy, Setting setting) {
  for (const Server* const server : kServers) {
    const auto preset = std::ranges::find(server->presets, policy, &ServerPreset::policy);
    if (preset == server->presets.end()) continue;
    const ServerSetting* const found = FindSetting(server->family, setting);
    return found == nullptr ? "" : FieldOf(*found, policy);
  }
  return "";
}

std::string FieldOfServer(std::string_view server, Setting setting) {
  return FieldOfPolicy(FindServerPolicy(server), setting);
}

ServerBoundary BoundaryOfServer(std::string_view server, bool exact, std::int32_t ranks) {
  const std::optional<ListedServer> found = FindServer(server);
  CHECK(found.has_value());
  const ServerPreset& preset = *found->preset;
  const bool one = ranks == 1;
  const double recorded_log_sd = one ? kOneRankLogSd : kMoreRanksLogSd;
  return {sim::BoundaryOf(one ? preset.boundary_s : kMoreRanksSeconds),
          exact && preset.boundary_recorded ? recorded_log_sd : found->server->boundary_log_sd};
}

PositionRule PositionRuleOf(const proto::Experiment& message) {
  const proto::System& system = message.system();
  const std::string& server = system.has_server_asked() ? system.server_asked() : system.server();
  const auto* const kind = message.policy().GetReflection()->GetOneofFieldDescriptor(
      message.policy(), proto::Policy::descriptor()->FindOneofByName("kind"));
  std::string policy = kind == nullptr ? "" : std::string(kind->name());
  const bool is_open = policy.empty() || message.policy().has_own();
  if (const auto listed = FindServer(server); listed && is_open) {
    policy = listed->preset->policy;
  }
  const std::optional<ServerName> name = ParseServerName(server);
  for (const Server* const one : kServers) {
    if (const auto rule = one->find_position_rule(policy, name)) return *rule;
  }
  return PositionRule::kVllmBefore0111;
}

void FillServerDefaults(const ModelSpec& model, const HardwareSpec& hardware,
                        const Parallelism& parallelism, proto::Experiment& message) {
  const std::string asked = message.system().server();
  const std::optional<ListedServer> found = FindServer(asked);
  if (!found) Refuse(asked);
  const ServerMachine machine{model, hardware, parallelism};
  proto::Experiment defaults;
  defaults.mutable_system()->mutable_memory()->set_block_size(16);
  found->server->fill_defaults(*found->preset, found->version, machine, message, defaults);
  FillBoundary(*found, parallelism, *defaults.mutable_system()->mutable_boundary());
  // Another policy than the server's takes nothing from it; run/config_warnings.cc says so.
  if (message.policy().own().has_engine()) {
    GiveServerSettings(defaults.policy(), *message.mutable_policy()->mutable_own());
  }
  if (message.policy().kind_case() != proto::Policy::KIND_NOT_SET &&
      message.policy().kind_case() != defaults.policy().kind_case()) {
    defaults.clear_policy();
  }
  Overlay(message, defaults, "another server");
  message = std::move(defaults);
  KeepAsked(asked, *found, *message.mutable_system());
  if (proto::Cost& cost = *message.mutable_cost(); TakesProfile(cost)) {
    FillStepPreparation(machine, message.policy(), cost);
    FillLibrary(*found->server, cost);
  }
  if (message.cost().kind_case() == proto::Cost::KIND_NOT_SET) message.clear_cost();
}

}  // namespace twin
