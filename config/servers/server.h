// A serving system: all that the program knows of its releases. servers.h lists them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "config/models/served_positions.h"
#include "config/servers/layer_defaults.h"
#include "config/servers/server_name.h"
#include "core/hardware_spec.h"
#include "core/model_spec.h"

namespace twin::proto {
class Experiment;
class Policy;
class System;
}  // namespace twin::proto

namespace twin {

// Seconds from a client to the engine and back, of recorded runs of vLLM 0.15.1 and 0.23.0.
inline constexpr double kBoundarySecondsBefore0230 = 6.1e-3;
inline constexpr double kBoundarySeconds = 6.8e-3;

// A release with the defaults that it starts with.
struct ServerPreset {
  std::string_view name;  // of system.server
  std::string_view policy;
  std::string_view source;  // where its defaults come from
  ServerVersion since{};    // the first version that starts like this one, as far as is known
  double boundary_s = kBoundarySeconds;  // with an engine on one device
  bool boundary_recorded = false;        // else it is that of the nearest recorded release
};

// The model and the devices that a server starts with.
struct ServerMachine {
  const ModelSpec& model;
  const HardwareSpec& hardware;
  const Parallelism& parallelism;
};

// How the host prepares steps, and the largest captured graph.
struct StepPreparation {
  std::string_view engine;     // a word of cost.profile.engine
  std::uint32_t captured = 0;  // 0: the cost model's own rule
  bool hidden =
      false;  // the device hides the host, although the simulated policy waits for results
};

struct LaunchSettings;

struct Server {
  std::string_view family;                 // of its names
  std::string_view title;                  // as its makers write it
  std::span<const ServerPreset> presets;   // oldest first
  std::span<const LayerRule> layer_rules;  // a later one holds against an earlier one
  std::string_view programs;               // that start it, separated by |: words of a command line
  std::string_view image;    // the container of the server's own project; {} is the release
  std::string_view listen;   // arguments by which it serves on all addresses of the container
  std::string_view library;  // of its kernels: a word of cost.profile.library; empty: the default
  double boundary_log_sd = 0.3;  // of boundaries that were not recorded, of their logarithm

  // Sets the defaults of the policy and of system.memory. `version` is the one that the experiment
  // asks for, `asked` the experiment as it was written.
  void (*fill_defaults)(const ServerPreset& preset, const ServerVersion& version,
                        const ServerMachine& machine, const proto::Experiment& asked,
                        proto::Experiment& defaults);
  // Returns nullopt for a policy of another server.
  std::optional<StepPreparation> (*find_step_preparation)(const ServerMachine& machine,
                                                          const proto::Policy& policy);
  // Returns the rule for the longest request; nullopt for a policy of another server. `name`: the
  // server that the experiment names, if any.
  std::optional<PositionRule> (*find_position_rule)(std::string_view policy,
                                                    const std::optional<ServerName>& name);
  bool runs_pipelines = false;  // stages of a pipeline are simulated as it runs them
  std::string (*launch_command)(const LaunchSettings& settings);
};

// Sets the size of blocks and the format of the cache.
void FillLayers(const LayerDefaults& layers, proto::System& defaults);

// One source per server in this folder.
extern const Server kVllmServer;
extern const Server kSglangServer;
extern const Server kTgiServer;
extern const Server kTrtllmServer;

inline constexpr std::int64_t kGib = std::int64_t{1} << 30;

}  // namespace twin
