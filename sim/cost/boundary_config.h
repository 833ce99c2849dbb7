// The boundary between clients and engine: everything on a request's way that no step contains,
// such as the HTTP server, the tokenizer, processes that pass messages, the network and the client.
#pragma once

#include <cstdint>
#include <optional>

#include "core/random.h"

namespace twin::sim {

// Each delay is drawn once per request, from a random stream of its own.
struct BoundaryConfig {
  DurationDistribution request{};   // from the client's send until the engine knows the request
  DurationDistribution response{};  // from a token in the engine until the client has it
  // In a closed loop (users, sessions, max_in_flight): from the last token at the client until it
  // acts on it, before any think time.
  DurationDistribution client_reaction{};

  bool operator==(const BoundaryConfig&) const = default;
};

// Whether there is a boundary at all: one without delays is none.
inline bool HasDelays(const std::optional<BoundaryConfig>& boundary) {
  return boundary && *boundary != BoundaryConfig{};
}

// The delays of one request.
struct BoundaryDelays {
  Duration request{0};
  Duration response{0};
  Duration client_reaction{0};
};

// Draws the delays of request after request, in the order of sending.
class BoundarySampler {
 public:
  BoundarySampler(const BoundaryConfig& config, std::uint64_t seed)
      : config_(config),
        request_(seed, "boundary request"),
        response_(seed, "boundary response"),
        reaction_(seed, "boundary reaction") {}

  BoundaryDelays Draw() {
    return {DrawDuration(config_.request, request_), DrawDuration(config_.response, response_),
            DrawDuration(config_.client_reaction, reaction_)};
  }

 private:
  BoundaryConfig config_;
  Random request_;
  Random response_;
  Random reaction_;
};

}  // namespace twin::sim
