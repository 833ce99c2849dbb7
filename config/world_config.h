// The worlds that an experiment can name.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "core/model_options.h"
#include "core/time.h"
#include "traces/distribution_config.h"

namespace twin {

struct SimulatedWorldConfig {
  // Clients cancel a request after this time.
  std::optional<Duration> client_timeout = std::nullopt;

  bool operator==(const SimulatedWorldConfig&) const = default;
};

// Sampling of tokens; greedy by default.
struct TokenSamplingConfig {
  double temperature = 0;  // 0 = the most likely token
  std::int32_t top_k = 0;  // 0 = all
  double top_p = 1;
  double min_p = 0;

  bool operator==(const TokenSamplingConfig&) const = default;
};

struct RealWorldConfig {
  enum class Device : std::uint8_t { kCpu, kCuda };
  Device device = Device::kCpu;
  std::int32_t threads = 0;        // 0 = all cores
  bool pin_output_lengths = true;  // requests end at the trace's length
  bool dummy_weights = false;      // random weights
  // Clients cancel a request after this time.
  std::optional<Duration> client_timeout = std::nullopt;
  // A rank that waits longer than this for another rank fails the run.
  Duration rank_timeout{60'000'000'000};
  TokenSamplingConfig sampling;
  ModelOptions model_options;

  bool operator==(const RealWorldConfig&) const = default;
};

// The simulated world at wall-clock time (sim/world/emulated_world.h).
struct EmulatedWorldConfig {
  double speed = 1;  // engine seconds per second of the clock
  // Clients cancel a request after this time.
  std::optional<Duration> client_timeout = std::nullopt;
  // Where served answers end, if earlier than at their limit; nullopt: at the limit.
  std::optional<IntegerDistribution> output = std::nullopt;

  bool operator==(const EmulatedWorldConfig&) const = default;
};

using WorldConfig = std::variant<SimulatedWorldConfig, RealWorldConfig, EmulatedWorldConfig>;

inline bool IsSimulated(const WorldConfig& world) {
  return std::holds_alternative<SimulatedWorldConfig>(world);
}
inline bool IsReal(const WorldConfig& world) {
  return std::holds_alternative<RealWorldConfig>(world);
}
// Whether a cost model says how long steps take.
inline bool HasCosts(const WorldConfig& world) { return !IsReal(world); }
// Whether clients may send requests while it runs.
inline bool TakesLiveRequests(const WorldConfig& world) { return !IsSimulated(world); }

// Time after which clients cancel a request.
inline std::optional<Duration> ClientTimeout(const WorldConfig& world) {
  return std::visit([](const auto& any) { return any.client_timeout; }, world);
}

}  // namespace twin
