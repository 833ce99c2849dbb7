// What a simulated world is made of, beside its arrivals and its cost model.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/time.h"
#include "sim/cost/step_cost.h"
#include "sim/world/acceptance.h"
#include "sim/cost/boundary_config.h"
#include "sim/world/kv_links.h"
#include "sim/world/pace.h"

namespace twin::sim {

// Equal replicas of a world whose replicas differ.
struct SimReplicas {
  std::int32_t count = 1;
  const StepCost* cost = nullptr;     // borrowed
  bool forgets_stale_tokens = false;  // PolicyTraits, as the next
  bool overlaps_own_steps = false;
};

struct SimWorldOptions {
  // Prompt + output tokens that the model can hold. An output ends when it reaches this length; if
  // the prompt alone reaches it, the output is one token. 0 = no limit.
  std::int32_t max_model_length = 0;
  // Tokens that a key for prefix caching stands for (KvPoolConfig::key_tokens); 0 = no keys.
  std::int32_t named_block_size = 0;
  bool forgets_stale_tokens = false;  // PolicyTraits, as the next
  bool overlaps_own_steps = false;
  // What lies between clients and engine; nullopt: requests and tokens take no time.
  std::optional<BoundaryConfig> boundary = std::nullopt;
  // Clients cancel a request that has not ended this long after they sent it; nullopt: never.
  std::optional<Duration> client_timeout = std::nullopt;
  std::uint64_t seed = 0;  // of the boundary's delays, and of acceptance
  std::int32_t replicas = 1;
  // The index of the world's only replica among those of other worlds, one in many of whose
  // requests are its own; -1: the world has all replicas, from index 0.
  std::int32_t only_replica = -1;
  // Replicas that differ, in the order of their indices, `replicas` in all; the cost model of the
  // world and its traits of the policy are then of nobody. Empty: they do not differ.
  std::vector<SimReplicas> groups = {};
  // Speculative decoding, where the policy verifies drafts.
  std::optional<AcceptanceConfig> acceptance = std::nullopt;
  // Between replicas, where some prefill and others decode.
  std::optional<LinkConfig> link = std::nullopt;
  double kv_token_bytes = 0;  // keys and values of a token, of all layers and ranks
  std::int32_t kv_layers = 1;
  std::int32_t drafts_offered = 0;  // after each step; 0 if the policy assumes them
  // Requests may be cancelled from outside (SimWorld::Cancel).
  bool cancellable = false;
  Pace* pace = nullptr;  // holds the world back, which is then cancellable; borrowed
};

}  // namespace twin::sim
